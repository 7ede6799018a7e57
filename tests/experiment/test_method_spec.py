"""A method with its options is written as one word, and parsed back to the same spec."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ramet.errors import RametError
from ramet.experiment import MethodSpec

EXAMPLES = {
    "local": MethodSpec("local"),
    "fedavg,share=": MethodSpec("fedavg", share=()),
    "mine.py:mine,layers=64,32,name=": MethodSpec("mine.py:mine", {"layers": "64,32", "name": ""}),
    "feddense,width=16,lr=0.01": MethodSpec("feddense", {"width": "16", "lr": "0.01"}),
    "fedstar,share=structure.* head.*": MethodSpec("fedstar", share=("structure.*", "head.*")),
    "fedavg,merge=trimmed-mean,share=0.3": MethodSpec("fedavg", merge="trimmed-mean,share=0.3"),
    "fedavg,lr=1,share=*,merge=krum,share=0.3,activation=restart,alpha=0.4,beta=0.2": MethodSpec(
        "fedavg", {"lr": "1"}, None, ("*",), None, "krum,share=0.3", "restart,alpha=0.4,beta=0.2"
    ),
    "fedavg,release=8-bit,merge=krum,share=0.3": MethodSpec(
        "fedavg", release="8-bit", merge="krum,share=0.3"
    ),
    "fedavg,hidden=8,network=/a, b/net.py:Net,share=layers.*": MethodSpec(
        "fedavg", {"hidden": "8"}, "/a, b/net.py:Net", ("layers.*",)
    ),
    "/a, b/mine.py:mine,count=2,merge=/c, d/rule.py:Rule,share=0.3": MethodSpec(
        "/a, b/mine.py:mine", {"count": "2"}, merge="/c, d/rule.py:Rule,share=0.3"
    ),
}


@pytest.mark.parametrize(("word", "spec"), EXAMPLES.items(), ids=EXAMPLES)
def test_examples(word: str, spec: MethodSpec) -> None:
    assert MethodSpec.parse(word) == spec
    assert str(spec) == word


names = st.text(string.ascii_lowercase + string.digits + "-+", min_size=1)
values = st.text(string.ascii_letters + string.digits + "=.-_*", min_size=1)
methods = names | st.builds("/home/{0}/{1}.py:{1}".format, names, names)


def options(*reserved: str) -> st.SearchStrategy[dict[str, str]]:
    taken = {"merge", "activation", *reserved}
    keys = st.text(string.ascii_lowercase + "_", min_size=1).filter(lambda key: key not in taken)
    return st.dictionaries(keys, values, max_size=3)


rules = st.builds(lambda name, given: str(MethodSpec(name, given)), methods, options())
specs = st.builds(
    MethodSpec,
    method=methods,
    options=options("network", "share"),
    network=st.none() | methods,
    share=st.none() | st.lists(values, min_size=1, max_size=3).map(tuple),
    merge=st.none() | rules,
    activation=st.none() | rules,
)


@settings(deadline=None)
@given(specs)
def test_every_spec_survives_a_round_trip(spec: MethodSpec) -> None:
    assert MethodSpec.parse(str(spec)) == spec
    assert str(MethodSpec.parse(str(spec))) == str(spec)


@pytest.mark.parametrize("word", ["", "feddense,16", "feddense,=16", ",width=16", "feddense,"])
def test_malformed_specs_are_refused(word: str) -> None:
    with pytest.raises(RametError, match="is not METHOD,KEY=VALUE"):
        MethodSpec.parse(word)


def test_files_keep_their_folders_below_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = MethodSpec("/a/mine.py:mine", merge="/b/rule.py:Rule,share=0.3", activation="restart")
    assert str(spec.seen_from_here()) == (
        "mine.py:mine,merge=rule.py:Rule,share=0.3,activation=restart"
    )
    below = MethodSpec(f"{tmp_path}/c/a/mine.py:mine", network="../c/net.py:Net", merge="d/r.py:R")
    assert str(below.seen_from_here()) == "c/a/mine.py:mine,network=net.py:Net,merge=d/r.py:R"
