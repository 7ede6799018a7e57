"""Whether the programs of a party work, as those who depend on them see it.

A running process is not enough: a SuperNode needs accepted heartbeats, the coordinator's
SuperLink and proxy must answer with a valid certificate.
"""

from __future__ import annotations

import ssl
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

from ramet.deploy.alive import describe, is_recent
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.probes import Check
from ramet.deploy.services import Service
from ramet.deploy.site import Site

_TIMEOUT = 5.0
_LINK, _PROXY, _NODE = "superlink", "proxy", "supernode"


def check_services(party: Coordinator | Site) -> dict[str, Check]:
    """The check of each service that was started, by name."""
    return {
        service.name: _check_service(party, service)
        for service in party.services()
        if service.should_run or (service.name == _NODE and _has_heartbeat_file(party))
    }


def _check_service(party: Coordinator | Site, service: Service) -> Check:
    if isinstance(party, Site) and service.name == _NODE:
        return _check_heartbeat(party, service)
    if service.process() is None:
        return Check(service.name, False, "not running", f"See {service.log}.")
    if service.name in (_LINK, _PROXY):
        return _check_answer(service, party.authority)
    return Check(service.name, True, "running")


def _has_heartbeat_file(party: Coordinator | Site) -> bool:
    return isinstance(party, Site) and party.last_heartbeat is not None


def _check_heartbeat(party: Site, service: Service) -> Check:
    remedy = f"It retries until the coordinator answers; if it does, see {service.log}."
    return Check(
        service.name, is_recent(party.last_heartbeat), describe(party.last_heartbeat), remedy
    )


def _check_answer(service: Service, authority: Path) -> Check:
    """Check that a service of the coordinator answers with a certificate that sites accept."""
    path = "/health" if service.name == _LINK else "/"
    try:
        status = _status(service, path, authority)
    except ssl.SSLCertVerificationError as error:
        remedy = "Rerun `ramet deploy init`, then `ramet deploy stop` and `start`."
        return Check(service.name, False, error.verify_message, remedy)
    except (OSError, HTTPException) as error:
        return Check(service.name, False, f"no answer ({error})", f"See {service.log}.")
    ok = status == 200 or service.name == _PROXY
    return Check(service.name, ok, f"answers with status {status}", f"See {service.log}.")


def _status(service: Service, path: str, authority: Path) -> int:
    assert service.listens is not None
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = False  # this machine's address need not be in the certificate
    connection = HTTPSConnection(*service.listens, timeout=_TIMEOUT, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()
