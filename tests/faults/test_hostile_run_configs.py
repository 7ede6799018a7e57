"""Run configs and messages of a hostile coordinator: a site's own settings decide what leaves it.

The site allows FedPer, which shares the first layer, and `local`, which shares nothing. A seeded
generator changes the consortium's run config and message. Whatever the client app replies, no other
array leaves, and no file is opened outside the site's folder, its data and Python's own files. With
`RAMET_FAULTS=full` (`make faults`), 10,000 run configs are tested.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flwr.app import MessageType

import ramet
from joined_sites import Joined, joined_site
from own_sites import node_site
from ramet.deploy.site import POLICY
from ramet.errors import RametError
from ramet.flower.terms import SETTINGS
from ramet.payload import Payload

COUNT = 10_000 if "RAMET_FAULTS" in os.environ else 300
MARKED = "imported"
EVIL = f"from pathlib import Path\nPath(__file__).with_name('{MARKED}').touch()\nfactory = dict\n"
OPTIONS = "task=node-classification sites='north south'"
STARTING = ("subprocess.Popen", "os.system", "os.exec", "socket.connect", "os.posix_spawn")


@dataclass
class Watch:
    """The files that are opened, and the programs and connections that are started."""

    allowed: tuple[Path, ...]
    active: bool = False
    outside: list[str] = field(default_factory=list)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event in STARTING:
            self.outside.append(event)
        elif event == "open" and isinstance(arguments[0], str | bytes):
            path = Path(os.path.realpath(os.fsdecode(arguments[0])))
            if not any(path.is_relative_to(root) for root in self.allowed):
                self.outside.append(str(path))

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.active = True
        try:
            yield
        finally:
            self.active = False


@dataclass(frozen=True)
class Hostile:
    """Draws changes of a run config and of the message that comes with it."""

    rng: random.Random
    decoys: Path

    def config(self, base: dict[str, Any]) -> dict[str, Any]:
        changed = dict(base)
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            name = self.rng.choice(sorted(base))
            match self.rng.randrange(20):
                case 0:
                    changed.pop(name, None)
                case 1:
                    changed[self._text()] = self._value()
                case 2 | 3 | 4:
                    changed[name] = self._value()
                case _:
                    changed |= self._likely()
        return changed

    def _likely(self) -> dict[str, Any]:
        """A change that makes sense, and that a site may permit."""
        draw = self.rng.choice
        return draw(
            (
                lambda: {"share": draw(self._patterns())},
                lambda: {"method": "local", "share": draw(self._patterns())},
                lambda: {"method": draw((*ramet.METHODS, "local-gcn", "fed-gcn", *self._code()))},
                lambda: {"network": draw(("", "gcn", "sage", "gin", *self._code()))},
                lambda: {"options": f"{OPTIONS} {draw(self._options())}"},
                lambda: {"options": f"task=node-classification sites='{draw(self._paths())}'"},
                lambda: {draw(("data", "folder", "keys")): draw(self._paths())},
                lambda: {"activation": draw(("random-clients,count=1", "restart", *self._code()))},
                lambda: {"merge": draw(("median", "krum", "mean", *self._code()))},
                lambda: {"release": draw(("8-bit", *self._code()))},
                lambda: {
                    draw(("seed", "rounds", "threads", "split-seed", "quorum")): self._number()
                },
                lambda: {"device": draw(("cpu", "cuda", "mps", "cpu:0"))},
                lambda: {"setting": draw(("tiny", "cora", "at-random", "own"))},
                lambda: {"deadline": self._number(), "norm-bound": self._number()},
                lambda: {"code": self._text()},
            )
        )()

    def message(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Changes of the message's numbers and notes; mostly none."""
        if self.rng.random() < 0.7:
            return {}, {}
        draw = self.rng.choice
        numbers = {draw(("round", "train", "last", "more")): draw((0, 1, 2, 3, 4, self._number()))}
        notes = {
            draw(("run", "stage", "spared", "nonce", "client")): draw((self._text(), "f" * 32))
        }
        return numbers, notes

    def _patterns(self) -> tuple[str, ...]:
        return (
            "*",
            "layers.*",
            "layers.1.*",
            "layers.0.*",
            "layers.0.bias",
            "?ayers*",
            "[!x]*",
            "",
        )

    def _options(self) -> tuple[str, ...]:
        return (
            *("lr=0.5", "lr=1e300", "hidden=8", "layers=4", "layers=1", "personal=2", "epochs=2"),
            *("same_schema=true", "same_schema=false", "negatives=hard", "task=link-prediction"),
            *(
                "dropout=0",
                "sites=north",
                f"hidden={10**15}",
                "dataset=../../x",
                "clients=9",
                "=",
                "'",
            ),
            *(f"{self._text()}={self._text()}", f"sites={self.decoys / 'north' / 'site.toml'}"),
        )

    def _paths(self) -> tuple[str, ...]:
        decoy = str(self.decoys / "north" / "site.toml")
        return (
            decoy,
            f"north {decoy}",
            os.path.relpath(decoy),
            "../north.toml",
            "/etc/passwd.toml",
            "~",
        )

    def _code(self) -> tuple[str, ...]:
        return (f"{self.decoys}/evil.py:factory", "os:system", "fedper,x:y", "../evil.py:factory")

    def _value(self) -> Any:
        draw = self.rng.choice
        return draw((self._text(), self._number(), draw(self._paths()), draw(self._code()), True))

    def _number(self) -> Any:
        rng = self.rng
        huge = (10**18, 2**63, -1, 0, float("inf"), float("nan"), -0.0, 1e-320)
        return rng.choice((*huge, rng.randrange(5), rng.randrange(10**6), rng.random()))

    def _text(self) -> str:
        rng = self.rng
        letters = "abc*?[]{}'\"\\/.:=, \n\t\0é漢🙂\u202e%$"
        return "".join(rng.choice(letters) for _ in range(rng.choice((0, 1, 5, 30, 20_000))))


@dataclass(frozen=True)
class Target:
    """The site, the watch, and what a run config brought to light."""

    joined: Joined
    watch: Watch
    hostile: Hostile
    outcomes: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def attack(self, count: int, without: str = "") -> None:
        base = self.joined.config()
        for number in range(count):
            config = self.hostile.config(base)
            if without:
                config["threads"] = 1  # millions of threads would end this process
            numbers, notes = self.hostile.message()
            kind = MessageType.QUERY if self.hostile.rng.random() < 0.1 else MessageType.TRAIN
            notes = {"run": f"{number:032x}", **notes}  # a run's config cannot change
            sent = self.joined.signed_request(kind, notes, **numbers)
            try:
                with self.watch.watching():
                    reply = self.joined.deliver(sent, config, kind, without)
            except RametError as error:
                self.outcomes[type(error).__name__] += 1
                self._check_text(str(error), config)
            except Exception as error:  # noqa: BLE001 (the server would see its text)
                self.violations.append(f"the server sees {error!r} with {config}")
            else:
                self.outcomes["replies"] += 1
                self._check_reply(reply, config)
            self._check_files(config)

    def _check_reply(self, reply: Payload, config: dict[str, Any]) -> None:
        shares = {"fedper": "layers.0."}.get(config["method"], "nothing")
        names = [name for name in reply.arrays if not name.startswith(shares)]
        if names or reply.extras:
            self.violations.append(f"{names} and {[*reply.extras]} left with {config}")

    def _check_text(self, text: str, config: dict[str, Any]) -> None:
        for folder in (self.joined.site.folder, self.joined.site.settings.data.parent):
            if str(folder) in text:
                self.violations.append(f"'{text}' names a path of the site with {config}")

    def _check_files(self, config: dict[str, Any]) -> None:
        if self.watch.outside:
            self.violations.append(f"{self.watch.outside} opened with {config}")
            self.watch.outside.clear()
        mark = self.hostile.decoys / MARKED
        if mark.exists():
            self.violations.append(f"a coordinator's code ran with {config}")
            mark.unlink()


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    (tmp_path / "consortium").mkdir()
    joined = joined_site(tmp_path / "consortium", monkeypatch, method="fedper")
    joined.allow(methods=["local"], networks=["sage"])
    (joined.site.folder / POLICY).write_text("")  # any number of runs
    decoys = tmp_path / "decoys"
    node_site(decoys / "north", seed=2)
    (decoys / "evil.py").write_text(EVIL)
    python = (sys.prefix, sys.base_prefix, *(path for path in sys.path if path))
    system = ("/proc", "/dev", "/sys", "/usr/share/zoneinfo")
    own = (joined.site.folder, joined.site.settings.data.parent)
    watch = Watch((*own, *(Path(root).resolve() for root in (*python, *system))))
    sys.addaudithook(watch.hook)
    return Target(joined, watch, Hostile(random.Random(7), decoys))


def test_nothing_leaves_and_nothing_is_read_that_the_site_does_not_allow(
    target: Target, record_property: Callable[[str, object], None]
) -> None:
    target.attack(COUNT)
    record_property("outcomes", dict(target.outcomes))
    assert not target.violations
    assert target.outcomes["replies"] > COUNT * 0.1, "too few run configs reached a reply"
    assert target.outcomes["NotAllowedError"] > COUNT * 0.2


def test_without_the_sites_settings_the_same_run_configs_take_more(target: Target) -> None:
    """Shows that the test above can fail."""
    target.attack(100, without=SETTINGS)
    for sign in ("left with", "opened with", "the server sees"):
        assert any(sign in violation for violation in target.violations)
