from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module

import pytest
from flwr.app import Message, RecordDict
from flwr.common.constant import SubStatus
from flwr.supercore.constant import TaskType
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.nodestate import NodeStateFactory
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

from ramet.flower.patches.node_state import KEPT, SteadyNodeState, use_steady_state

FACTORY = import_module("flwr.supernode.nodestate.nodestate_factory")


def test_finished_tasks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FACTORY, "InMemoryNodeState", FACTORY.InMemoryNodeState)
    use_steady_state()
    state = NodeStateFactory(ObjectStoreFactory()).state()
    assert isinstance(state, SteadyNodeState)
    pending = state.create_task(task_type=TaskType.CLIENT_APP, run_id=1, fab_hash="a")
    last = None
    for _ in range(KEPT + 20):
        last = state.create_task(task_type=TaskType.CLIENT_APP, run_id=1, fab_hash="a")
        assert last is not None
        assert state.claim_task(last)
        assert state.activate_task(last)
        assert state.finish_task(last, SubStatus.COMPLETED, "")
    assert len(state.task_store) == KEPT + 1
    assert {pending, last} <= state.task_store.keys()


@pytest.mark.parametrize("fetched", [False, True])
def test_the_message_of_a_killed_app_is_answered(
    fetched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower answers only if the app had fetched its message; otherwise its SuperNode hangs."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    store = ObjectStoreFactory().store()
    flower, ours = InMemoryNodeState(store), SteadyNodeState(store)
    for state in (flower, ours):
        state.set_node_id(7)
        message = Message(RecordDict(), dst_node_id=7, message_type="train")
        message.metadata.__dict__["_message_id"] = message.object_id
        state.store_message(message)
        task = state.create_task(task_type=TaskType.CLIENT_APP, run_id=1, fab_hash="a")
        assert task is not None
        assert state.claim_task(task)
        assert state.activate_task(task)
        if fetched:
            state.record_message_processing_start(message.metadata.message_id)
            assert state.get_messages_legacy(is_reply=False)
        state.task_token_store[task].active_until = datetime.now(UTC) - timedelta(seconds=1)
    assert len(flower.get_messages_legacy(is_reply=True)) == fetched
    (answer,) = ours.get_messages_legacy(is_reply=True)
    assert answer.has_error()
