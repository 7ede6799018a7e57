"""A site's limit holds at the node's exit, whatever the run's method declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from federations import protected
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.site.limit import SiteLimit
from ramet.engine.site.request import NotSharedError
from ramet.methods import fedstar, scaffold
from ramet.payload import only

ClientMaker = Callable[..., Client]


def limited(node: Client, *patterns: str) -> Client:
    return protected(node, limit=SiteLimit(node.method, (only(*patterns),)))


def test_an_array_outside_the_limit_does_not_leave(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", fedstar())
    sent = limited(node, "structure.*").answer(request(1, True, {})).arrays
    assert sent.keys() == node.answer(request(1, True, {})).arrays.keys()
    first = next(iter(sent))
    others = [name for name in sent if name != first]
    with pytest.raises(NotSharedError, match=rf"refuses to send '{first}', which the site's own"):
        limited(node, *others).answer(request(1, True, {}))


def test_an_extra_outside_the_limit_does_not_leave(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", scaffold())
    limit = SiteLimit(node.method, (only("layers.*"),))
    shape = node.method.task.shape(node.samples)
    reply = protected(node, limit=limit).answer(request(1, True, {}))
    assert reply.extras.keys() == limit.extras(shape, node.seed)
    narrow = SiteLimit(node.method, (only("layers.0.*"),))
    forbidden = narrow.forbidden(replace(reply, arrays={}), shape, node.seed)
    assert forbidden == [name for name in reply.extras if "layers.0." not in name]
    assert forbidden


def test_a_reply_without_arrays_may_always_leave(tiny_client: ClientMaker) -> None:
    node = limited(tiny_client("rings", fedstar()))
    assert node.answer(request(1, False, {})).notes["private"]
