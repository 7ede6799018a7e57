"""The compose files; `make containers` runs them."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path
from typing import Any

import yaml

from own_sites import CONSORTIUM_TOML
from ramet.deploy.compose import compose_text
from ramet.deploy.init import init
from ramet.deploy.party import Party
from ramet.deploy.services import Service
from ramet.deploy.site import join


def _coordinator(root: Path, more: str = "") -> Party:
    (root / "consortium.toml").write_text(CONSORTIUM_TOML + more)
    return init(root / "consortium.toml", root / "coordinator", print)


def _site(root: Path) -> Party:
    invitation = _coordinator(root).folder / "invitations" / "rings.toml"
    return join(invitation, root / "data", root / "site", 9094, print)[0]


def _containers(party: Party) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((party.folder / "compose.yaml").read_text())["services"]
    return found


def test_compose_and_systemd_start_the_same_scripts(tmp_path: Path) -> None:
    site = _site(tmp_path)
    containers = _containers(site)
    assert containers.keys() == {"supernode", "superexec"}
    for service in site.services():
        unit = (site.folder / f"ramet-three-rings-{service.name}.service").read_text()
        assert f'ExecStart=/bin/sh "{service.script}"\n' in unit
        assert containers[service.name]["command"] == ["/bin/sh", str(service.script)]


def test_containers_can_write_to_the_folder_and_to_tmp_only(tmp_path: Path) -> None:
    site = _site(tmp_path)
    for container in _containers(site).values():
        assert container["read_only"]
        assert container["tmpfs"] == ["/tmp"]
        writable = {
            mount["source"]: not mount["read_only"]
            for mount in container["volumes"]
            if mount["source"] == mount["target"]
        }
        assert writable == {str(site.folder): True, str(tmp_path / "data"): False}
        assert container["cap_drop"] == ["ALL"]
        assert container["security_opt"] == ["no-new-privileges:true"]
        owner = site.folder.stat()
        assert container["user"] == f"{owner.st_uid}:{owner.st_gid}"


def test_services_with_a_port_are_checked_by_connecting_to_it(tmp_path: Path) -> None:
    containers = _containers(_coordinator(tmp_path, "metrics_port = 9464\n"))
    checks = {
        name: container["healthcheck"]["test"][-1]
        for name, container in containers.items()
        if "healthcheck" in container
    }
    assert {name: text.split("((")[1] for name, text in checks.items()} == {
        "superlink": "'127.0.0.1', 8000), 5)",
        "proxy": "'127.0.0.1', 8443), 5)",
        "metrics": "'127.0.0.1', 9464), 5)",
    }
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        check = ["python3", "-c", checks["metrics"].replace("9464", str(port))]
        assert subprocess.run(check, check=False).returncode == 0
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1


def test_a_supernode_is_checked_by_its_contact_with_the_coordinator(tmp_path: Path) -> None:
    site = _site(tmp_path)
    check = _containers(site)["supernode"]["healthcheck"]["test"]
    assert check == ["CMD", "python3", "-m", "ramet.deploy.alive", str(site.folder)]


def test_only_a_low_port_needs_a_capability(tmp_path: Path) -> None:
    containers = _containers(_coordinator(tmp_path, "port = 443\n"))
    assert {name: container["cap_add"] for name, container in containers.items()} == {
        "superlink": [],
        "superexec": [],
        "proxy": ["NET_BIND_SERVICE"],
    }


def test_odd_folder_names_are_quoted_and_variables_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "a \"b\" 'c' \\new $HOME %h é #: {x}"
    folder.mkdir()
    text = compose_text([Service(folder, "superexec", "A test", ("true",))], [folder / "data"])
    container = yaml.safe_load(text)["services"]["superexec"]
    escaped = str(folder).replace("$", "$$")
    assert container["command"][1] == f"{escaped}/superexec.sh"
    assert [mount["target"] for mount in container["volumes"]] == [escaped, f"{escaped}/data"]
