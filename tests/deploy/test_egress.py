"""The doctor's connection through an HTTP proxy, as the SuperNode makes it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from http_proxy import TINYPROXY, http_proxy
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.deploy.probes import Check, check_connection
from ramet.flower.programs import free_ports

pytestmark = pytest.mark.skipif(
    TINYPROXY is None or shutil.which("nginx") is None,
    reason="tinyproxy or nginx is not installed",
)


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    """A coordinator of which only nginx runs."""
    port, link_port = free_ports(2)
    settings = {"name": "three", "address": "localhost", "listen": "127.0.0.1", "port": port}
    settings |= {"link_port": link_port, "sites": ["rings", "trees", "blocks"]}
    settings |= {"method": "fedstar", "setting": "tiny"}
    (tmp_path / "consortium.toml").write_text(tomli_w.dumps(settings))
    party = init(tmp_path / "consortium.toml", tmp_path / "three", lambda _: None)
    (proxy,) = [service for service in party.services() if service.name == "proxy"]
    assert proxy.start()
    end = time.monotonic() + 20
    while not first_check(party).ok:
        assert time.monotonic() < end
        time.sleep(0.1)
    yield party
    assert proxy.stop()


def first_check(party: Coordinator) -> Check:
    settings = party.consortium
    return next(check_connection(settings.address, settings.port, party.authority))


@pytest.mark.parametrize("login", ["", "north:secret"])
def test_the_connection_goes_through_the_proxy(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    port = coordinator.consortium.port
    with http_proxy(tmp_path / "proxy", [port], login) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert first_check(coordinator).ok, first_check(coordinator).detail
        made = proxy.connections()
        assert set(made) == {f"localhost:{port}"}
        monkeypatch.setenv("NO_PROXY", "localhost")
        assert first_check(coordinator).ok
        assert proxy.connections() == made


def test_a_proxy_that_refuses_is_reported(
    coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_proxy(tmp_path / "proxy", [1]) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        check = first_check(coordinator)
    assert not check.ok
    assert "Tunnel connection failed: 403" in check.detail
