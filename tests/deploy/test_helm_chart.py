"""The Helm chart, rendered for a coordinator and for a site; no cluster runs where we test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from own_sites import CONSORTIUM_TOML
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.deploy.party import Party
from ramet.deploy.site import join
from ramet.version import __version__

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "ramet"
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="Helm is not installed")
Manifests = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Party]:
    root = tmp_path_factory.mktemp("chart")
    settings = root / "consortium.toml"
    settings.write_text(CONSORTIUM_TOML)
    coordinator = init(settings, root / "coordinator", print)
    invitation = coordinator.folder / "invitations" / "rings.toml"
    site, _ = join(invitation, root / "data", root / "site", 9094, print)
    return {"coordinator": coordinator, "site": site}


def _options(role: str, parties: dict[str, Party]) -> list[str]:
    folder = parties["coordinator"].folder
    if role == "coordinator":
        return ["--set=role=coordinator", f"--set-file=consortium={folder / 'consortium.toml'}"]
    return [
        f"--set-file=invitation={folder / 'invitations' / 'rings.toml'}",
        "--set=site.data.existingClaim=graphs",
        "--set=coordinator.cidrs={192.0.2.7/32}",
    ]


def _render(*options: str) -> str:
    return _helm("template", "hospitals", str(CHART), *options)


def _helm(*words: str) -> str:
    done = subprocess.run(["helm", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _manifests(text: str) -> Manifests:
    return {found["kind"]: found for found in yaml.safe_load_all(text)}


def _pod(manifests: Manifests) -> dict[str, Any]:
    pod: dict[str, Any] = manifests["StatefulSet"]["spec"]["template"]["spec"]
    return pod


@pytest.fixture(params=["coordinator", "site"])
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_chart_is_for_this_version() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


@needs_helm
def test_helm_finds_no_mistake(role: str, parties: dict[str, Party]) -> None:
    _helm("lint", "--strict", str(CHART), *_options(role, parties))


@needs_helm
@pytest.mark.skipif(
    shutil.which("kubernetes-validate") is None,
    reason="kubernetes-validate is not installed",
)
@pytest.mark.parametrize("keys", [[], ["--set=keys.existingSecret=keys"]])
def test_manifests_match_the_schemas_of_kubernetes(
    role: str, parties: dict[str, Party], keys: list[str], tmp_path: Path
) -> None:
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(_render(*_options(role, parties), *keys))
    command = ["kubernetes-validate", "--strict", str(rendered)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") + done.stderr.count("passed") == 4


@needs_helm
def test_containers_start_the_scripts_of_the_services(role: str, parties: dict[str, Party]) -> None:
    pod = _pod(_manifests(_render(*_options(role, parties))))
    commands = {found["name"]: found["command"] for found in pod["containers"]}
    names = [service.name for service in parties[role].services()]
    assert commands == {name: ["/bin/sh", f"/ramet/side/{name}.sh"] for name in names}


@needs_helm
def test_probes_use_the_ports_and_the_health_check_of_the_services(
    parties: dict[str, Party],
) -> None:
    for role, party in parties.items():
        pod = _pod(_manifests(_render(*_options(role, parties))))
        probes = {
            found["name"]: tuple(found["livenessProbe"]["exec"]["command"])
            for found in pod["containers"]
            if "livenessProbe" in found
        }
        expected = {service.name: service.health for service in party.services() if service.health}
        folder = str(party.folder)
        assert probes == {
            name: tuple(word.replace(folder, "/ramet/side") for word in command)
            for name, command in expected.items()
        }


@needs_helm
def test_pods_meet_the_restricted_pod_security_standard(
    role: str, parties: dict[str, Party]
) -> None:
    pod = _pod(_manifests(_render(*_options(role, parties))))
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]


@needs_helm
def test_a_site_reaches_only_the_coordinator_and_dns(parties: dict[str, Party]) -> None:
    policy = _manifests(_render(*_options("site", parties)))["NetworkPolicy"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["ingress"] == []
    coordinator, dns = policy["egress"]
    assert coordinator == {
        "to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}],
        "ports": [{"protocol": "TCP", "port": 8443}],
    }
    assert {port["port"] for port in dns["ports"]} == {53}


@needs_helm
def test_only_the_proxy_of_a_coordinator_can_be_reached(parties: dict[str, Party]) -> None:
    manifests = _manifests(_render(*_options("coordinator", parties)))
    policy = manifests["NetworkPolicy"]["spec"]
    assert isinstance(parties["coordinator"], Coordinator)
    port = parties["coordinator"].consortium.port
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": port}]}]
    assert policy["egress"] == []
    assert [found["port"] for found in manifests["Service"]["spec"]["ports"]] == [port]


@needs_helm
def test_only_the_setup_reads_the_authoritys_key(parties: dict[str, Party]) -> None:
    options = [*_options("coordinator", parties), "--set=keys.existingSecret=keys"]
    pod = _pod(_manifests(_render(*options)))
    volumes = {found["name"]: found for found in pod["volumes"]}
    in_use = [item["key"] for item in volumes["keys"]["secret"]["items"]]
    assert in_use == ["server.key", "coordinator.key", "superexec.secret"]
    for container in pod["containers"]:
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert "keys" in mounted
        assert "all-keys" not in mounted


@needs_helm
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--set=role=coordinator"], "a coordinator needs --set-file consortium"),
        (["--set=site.data.existingClaim=x"], "a site needs"),
        (["--set=role=bystander"], "role"),
        (["--set=coordinator.port=443"], "coordinator.port"),
    ],
)
def test_missing_and_wrong_values_are_refused(options: list[str], reason: str) -> None:
    command = ["helm", "template", "hospitals", str(CHART), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert reason in done.stderr
