{{- define "ramet.labels" -}}
app.kubernetes.io/name: ramet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: {{ .Values.role }}
{{- end }}

{{- define "ramet.file" -}}
{{- if eq .Values.role "coordinator" -}}
{{- required "a coordinator needs --set-file consortium=consortium.toml" .Values.consortium -}}
{{- else -}}
{{- required "a site needs --set-file invitation=SITE.toml" .Values.invitation -}}
{{- end -}}
{{- end }}

{{/* The key files that programs read; the authority's key is for `setup` only. */}}
{{- define "ramet.keys" -}}
{{- if eq .Values.role "coordinator" -}}
server.key coordinator.key superexec.secret
{{- else -}}
node.key superexec.secret
{{- end -}}
{{- end }}

{{- define "ramet.common" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - {name: folder, mountPath: /ramet}
  - {name: tmp, mountPath: /tmp}
  - {name: settings, mountPath: /settings, readOnly: true}
  {{- if eq .Values.role "site" }}
  - {name: data, mountPath: /data, readOnly: true}
  {{- end }}
{{- end }}

{{/* A program of the party. Probes run inside the pod, because the programs listen on loopback. */}}
{{- define "ramet.program" -}}
- name: {{ .name }}
  command: ["/bin/sh", "/ramet/side/{{ .name }}.sh"]
  resources: {{ index .root.Values.resources .name | toJson }}
  {{- include "ramet.common" .root | nindent 2 }}
    {{- if .root.Values.keys.existingSecret }}
    - {name: keys, mountPath: /keys, readOnly: true}
    {{- end }}
{{- end }}

{{- define "ramet.connects" -}}
{"exec": {"command": ["python3", "-c", "import socket; socket.create_connection(('127.0.0.1', {{ . }}), 5)"]}, "periodSeconds": 15, "timeoutSeconds": 10}
{{- end }}
