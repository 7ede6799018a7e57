"""Each patch falls back to Flower's own program, and protections of a consortium do not."""

from __future__ import annotations

import logging
import re
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ramet.errors import RametError
from ramet.flower import patches, warm
from ramet.flower.contact import Contact
from ramet.flower.guard import KEY_VARIABLE, LIST_VARIABLE, enable_guard_if_configured
from ramet.flower.patches import ALL, PATCHES, SWITCH, applied

PROTECTIONS = {"accepted-apps", "hidden-tokens", "site-connection"}
OPTIONAL = sorted(PATCHES.keys() - PROTECTIONS)
CONNECTION = (Contact(None), None)
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "accepted-apps": (lambda _: nullcontext(),),
    "site-connection": CONNECTION,
    "steady-connection": CONNECTION,
}
DOCS = Path(__file__).parents[2] / "docs"


def _first_place(name: str) -> tuple[Any, str]:
    """The module and the name in Flower that a patch replaces."""
    module, _, replaced = PATCHES[name].places[0].partition("(")[0].partition(":")
    return import_module(module), replaced


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Restores all that patches replace."""
    for name in PATCHES:
        module, replaced = _first_place(name)
        monkeypatch.setattr(module, replaced, getattr(module, replaced))
    monkeypatch.setenv("FLWR_SUPEREXEC_TASK_POLL_INTERVAL", "1")
    return monkeypatch


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_replaces_a_part_of_the_installed_flower(
    name: str, restored: pytest.MonkeyPatch
) -> None:
    module, replaced = _first_place(name)
    before = getattr(module, replaced)
    assert not PATCHES[name].missing()
    assert applied(name, *ARGUMENTS.get(name, ()), needed=PATCHES[name].protects)
    assert getattr(module, replaced) is not before
    assert restored


@pytest.mark.parametrize("name", PATCHES)
def test_without_a_place_in_flower_the_program_stays_as_it_is_with_a_warning(
    name: str, restored: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (module, replaced), patch = _first_place(name), PATCHES[name]
    restored.delattr(module, replaced)
    restored.setattr(logging.getLogger("flwr"), "propagate", True)
    assert not applied(name, *ARGUMENTS.get(name, ()))
    assert not hasattr(module, replaced)
    (warning,) = caplog.messages
    assert f"has no {patch.places[0]}" in warning
    assert patch.without in warning


@pytest.mark.parametrize("name", ["quick-node-objects", "quick-app-objects"])
def test_a_function_with_other_parameters_is_another_place(
    name: str, restored: pytest.MonkeyPatch
) -> None:
    module, replaced = _first_place(name)
    restored.setattr(module, replaced, lambda objects, backoff: (objects, backoff))
    assert PATCHES[name].missing() == [*PATCHES[name].places]


def test_a_module_that_has_gone_is_a_missing_place() -> None:
    patch = patches.Patch("", "", "waits:", ("flwr.no_module:name", "flwr.app:Message"))
    assert patch.missing() == ["flwr.no_module:name"]


def test_the_environment_switches_patches_off(restored: pytest.MonkeyPatch) -> None:
    (module, replaced) = _first_place("steady-state")
    before = getattr(module, replaced)
    for off in (ALL, "quick-replies,steady-state"):
        restored.setenv(SWITCH, off)
        assert not applied("steady-state")
        assert getattr(module, replaced) is before
    restored.setenv(SWITCH, "quick-replies")
    assert applied("steady-state")
    restored.setenv(SWITCH, ALL)
    assert patches.switched_off() == {*OPTIONAL}
    assert applied("hidden-tokens")
    for name in ("accepted-apps", "steadystate"):
        restored.setenv(SWITCH, name)
        with pytest.raises(RametError, match=f"that can be switched off '{name}'"):
            applied("quick-replies")


def test_protections_are_those_that_a_consortium_relies_on() -> None:
    assert {name for name, patch in PATCHES.items() if patch.protects} == PROTECTIONS


@pytest.mark.parametrize("change", ["place", "release"])
def test_a_site_does_not_start_without_its_protections(
    change: str, restored: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if change == "place":
        for name in PROTECTIONS:
            restored.delattr(*_first_place(name))
    else:
        restored.setattr(patches, "version", lambda _: "1.42.0")
    restored.setenv(LIST_VARIABLE, str(tmp_path / "accepted.txt"))
    with pytest.raises(RametError, match="any app would be unpacked"):
        enable_guard_if_configured()
    for variable in (LIST_VARIABLE, KEY_VARIABLE):
        restored.delenv(LIST_VARIABLE, raising=False)
        restored.setenv(variable, str(tmp_path / "file"))
        with pytest.raises(RametError, match="tokens are on command lines"):
            warm.main()
    with pytest.raises(RametError, match="proxy refuses the site"):
        applied("site-connection", *CONNECTION, needed=True)


def test_what_the_code_of_a_patch_imports_may_have_gone(restored: pytest.MonkeyPatch) -> None:
    for name in ("in_memory_nodestate", "nodestate_factory"):
        import_module(f"flwr.supernode.nodestate.{name}")
    restored.delitem(sys.modules, "ramet.flower.patches.node_state", raising=False)
    restored.setitem(sys.modules, "flwr.proto.task_pb2", None)
    (missing,) = PATCHES["steady-state"].missing()
    assert missing.startswith("flwr.proto.task_pb2: ")
    assert not applied("steady-state")


def test_the_docs_list_every_patch() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "flower.md").read_text(), re.MULTILINE)
    assert rows == [*PATCHES]
