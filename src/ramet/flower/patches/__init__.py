"""The only door to Flower's private modules: what Ramet replaces or calls in them, and why.

All other code uses Flower's public interface. If a release of Flower has moved what a patch needs,
the program runs as Flower wrote it, with one warning. The environment variable `RAMET_STOCK_FLOWER`
switches patches off: names with commas, or ``all``. Protections of a consortium cannot be switched
off, and its programs do not start without them.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

from ramet.errors import RametError, unknown

SWITCH, ALL = "RAMET_STOCK_FLOWER", "all"
TESTED = "1.41."
"""The releases of Flower with which the protections were tested."""
_PLACE = re.compile(r"(?P<module>[\w.]+):(?P<name>\w+)(\((?P<parameters>[\w, ]+)\))?")
_WAITS = "(initial_backoff, backoff_cap, max_tries_per_object)"


@dataclass(frozen=True)
class Patch:
    """A change to one of Flower's programs."""

    reason: str
    without: str
    """What happens in Flower's own program."""
    code: str
    """The function in this package that makes the change, `module:function`."""
    places: tuple[str, ...]
    """What it replaces or calls in Flower: `module:name`, with a function's parameters."""
    protects: bool = False
    """Whether a consortium relies on it."""

    def missing(self) -> list[str]:
        """What the installed Flower does not have: places, or what the patch's code imports."""
        missing = [place for place in self.places if not _exists(place)]
        try:
            import_module(f"{__name__}.{self.code.partition(':')[0]}")
        except ImportError as error:
            missing.append(f"{error.name}: {error}")
        return missing


PATCHES = {
    "accepted-apps": Patch(
        "A site unpacks only the apps on its list.",
        "any app would be unpacked and imported",
        "unpacking:unpack_within",
        ("flwr.supernode.runtime.run_clientapp:install_from_fab",),
        protects=True,
    ),
    "hidden-tokens": Patch(
        "A program inherits its token in a file without a name.",
        "tokens are on command lines, which every account of the machine can read",
        "executor:hide_tokens",
        ("flwr.supercore.superexec.run_superexec:get_executor",),
        protects=True,
    ),
    "site-connection": Patch(
        "A site shows its certificate to the proxy, and notes when the coordinator accepted it.",
        "the coordinator's proxy refuses the site",
        "connection:show_certificate",
        ("flwr.supernode.fleet_http_connection:FleetHttpClient",),
        protects=True,
    ),
    "forked-apps": Patch(
        "Client apps are forked from a process that has imported PyTorch.",
        "every message starts Python and imports PyTorch, which takes seconds",
        "executor:fork_client_apps",
        (
            "flwr.supercore.superexec.run_superexec:get_executor",
            "flwr.supernode.runtime.run_clientapp:run_clientapp",
        ),
    ),
    "steady-connection": Patch(
        "A SuperNode tries again after every failure, and asks often while rounds go on.",
        "a TLS error ends the SuperNode, and messages wait for up to 3 s",
        "connection:reconnect",
        ("flwr.supernode.fleet_http_connection:FleetHttpClient",),
    ),
    "steady-state": Patch(
        "A SuperNode forgets finished tasks, and answers for every app that was killed.",
        "a SuperNode's memory grows, and the message of a killed app may stay without an answer",
        "node_state:use_steady_state",
        ("flwr.supernode.nodestate.nodestate_factory:InMemoryNodeState",),
    ),
    "quick-replies": Patch(
        "A SuperNode looks for its app's reply every 0.05 s.",
        "a reply waits for up to 0.5 s",
        "waits:find_replies_quickly",
        ("flwr.supernode.start_client_internal:time",),
    ),
    "quick-node-objects": Patch(
        "A SuperNode pulls an object that was announced again after 0.05 s.",
        "a message waits for 1 s and longer",
        "waits:pull_node_objects_quickly",
        (f"flwr.supernode.start_client_internal:pull_objects{_WAITS}",),
    ),
    "quick-app-objects": Patch(
        "A client app pulls an object that was announced again after 0.05 s.",
        "a message waits for 1 s and longer",
        "waits:pull_app_objects_quickly",
        (f"flwr.supernode.runtime.run_clientapp:pull_and_inflate_object_from_tree{_WAITS}",),
    ),
    "quick-server-objects": Patch(
        "The server app pulls an object that was announced again after 0.05 s.",
        "a reply waits for 1 s and longer",
        "waits:pull_server_objects_quickly",
        (f"flwr.superlink.grid.http_grid:pull_objects{_WAITS}",),
    ),
}
"""All patches by name."""


def applied(name: str, *given: Any, needed: bool = False) -> bool:
    """Apply a patch; False if it is switched off or does not fit the installed Flower.

    Args:
        name: a name in `PATCHES`.
        given: arguments of the patch.
        needed: whether to raise an error instead, because a consortium relies on the patch.
    """
    patch = PATCHES[name]
    if name in switched_off():
        return False
    missing, release = patch.missing(), version("flwr")
    if needed and (missing or not release.startswith(TESTED)):
        raise RametError(
            f"Ramet's protections were tested with Flower {TESTED}x, and this is {release}. With "
            f"another release, {patch.without}. Install it: pip install 'flwr=={TESTED}*'."
        )
    if missing:
        lacks = f"Flower {release} has no {', '.join(missing)}"
        logging.getLogger("flwr").warning("%s, so %s.", lacks, patch.without)
        return False
    module, _, function = patch.code.partition(":")
    getattr(import_module(f"{__name__}.{module}"), function)(*given)
    return True


def switched_off() -> frozenset[str]:
    """The patches that the environment switches off."""
    names = frozenset(filter(None, os.environ.get(SWITCH, "").split(",")))
    optional = frozenset(name for name, patch in PATCHES.items() if not patch.protects)
    if names == {ALL}:
        return optional
    for name in sorted(names - optional):
        raise unknown(f"patch in {SWITCH} that can be switched off", name, [ALL, *sorted(optional)])
    return names


def _exists(place: str) -> bool:
    found = _PLACE.fullmatch(place)
    assert found is not None
    try:
        part = getattr(import_module(found["module"]), found["name"])
    except (ImportError, AttributeError):
        return False
    parameters = (found["parameters"] or "").replace(",", " ").split()
    return not parameters or {*parameters} <= inspect.signature(part).parameters.keys()
