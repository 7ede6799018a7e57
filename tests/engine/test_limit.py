"""A site's limit holds at the node's exit, whatever the run's method declares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ramet.engine.messages import request
from ramet.engine.site.limit import SiteLimit
from ramet.engine.site.node import Node, NotSharedError
from ramet.methods import fedstar, scaffold
from ramet.payload import only

NodeMaker = Callable[..., Node]


def limited(node: Node, *patterns: str) -> Node:
    return replace(node, limit=SiteLimit(node.method, (only(*patterns),)))


def test_an_array_outside_the_limit_does_not_leave(tiny_node: NodeMaker) -> None:
    node = tiny_node("rings", fedstar())
    sent = limited(node, "structure.*").answer(request(1, True, {})).arrays
    assert sent.keys() == node.answer(request(1, True, {})).arrays.keys()
    first = next(iter(sent))
    others = [name for name in sent if name != first]
    with pytest.raises(NotSharedError, match=rf"refuses to send '{first}', which the site's own"):
        limited(node, *others).answer(request(1, True, {}))


def test_an_extra_outside_the_limit_does_not_leave(tiny_node: NodeMaker) -> None:
    node = tiny_node("rings", scaffold())
    limit = SiteLimit(node.method, (only("layers.*"),))
    shape = node.method.task.shape(node.samples)
    reply = replace(node, limit=limit).answer(request(1, True, {}))
    assert reply.extras.keys() == limit.extras(shape, node.seed)
    narrow = SiteLimit(node.method, (only("layers.0.*"),))
    forbidden = narrow.forbidden(replace(reply, arrays={}), shape, node.seed)
    assert forbidden == [name for name in reply.extras if "layers.0." not in name]
    assert forbidden


def test_a_reply_without_arrays_may_always_leave(tiny_node: NodeMaker) -> None:
    node = limited(tiny_node("rings", fedstar()))
    assert node.answer(request(1, False, {})).notes["private"]
