"""The proxy's configuration: the only thing that faces outwards, and only the Fleet API's paths.

Flower's port carries the Control and Runtime APIs too, and Control has no login. So everything is
refused but POST to one path below /v1/fleet/, and what goes on is the normalised path that was
checked, without a query. Nothing is buffered on disk; the folders for that lie in the side's own
all the same, since nginx makes them when it starts and may not make the system's.
"""

from __future__ import annotations

from ramet.deploy.consortium import Consortium
from ramet.deploy.keys import LOOPBACK_NAME

TEMPORARY = "nginx"
"""nginx makes its folders in this one."""
LARGEST_MESSAGE = "64m"
"""Flower cuts arrays into pieces of 5 MB."""


def nginx_conf(consortium: Consortium) -> str:
    return f"""\
# The proxy of {consortium.name}. Written by `ramet deploy`, which overwrites it.
daemon off;
pid proxy.nginx.pid;
error_log stderr;
events {{}}
http {{
  log_format counted '$time_iso8601 $remote_addr "$request" $status $request_length $bytes_sent';
  access_log logs/access.log counted;
  server_tokens off;
{_temporary()}  upstream superlink {{
    server 127.0.0.1:{consortium.link_port};
    keepalive 16;
  }}
  server {{
    listen {consortium.listen}:{consortium.port} ssl;
    ssl_certificate server.pem;
    ssl_certificate_key server.key;
    ssl_protocols TLSv1.2 TLSv1.3;
    client_max_body_size {LARGEST_MESSAGE};
    location ~ ^/v1/fleet/[a-z-]+$ {{
      limit_except POST {{ deny all; }}
      proxy_pass https://superlink$uri;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
      proxy_max_temp_file_size 0;
      proxy_ssl_trusted_certificate authority.pem;
      proxy_ssl_verify on;
      proxy_ssl_name {LOOPBACK_NAME};
    }}
    location / {{ return 403; }}
  }}
}}
"""


def _temporary() -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return "".join(f"  {kind}_temp_path {TEMPORARY}/{kind};\n" for kind in kinds)
