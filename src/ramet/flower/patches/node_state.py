"""A SuperNode's state that does not grow with the number of messages, and that loses none.

Flower's keeps a task for every message until the process ends, and searches all of them whenever
the SuperExec asks for a task. If a client app is killed before it has fetched its message, nobody
answers the message, and the SuperNode waits for the answer forever.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flwr.common.constant import Status
from flwr.proto.task_pb2 import Task
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState

KEPT = 100
"""The number of finished tasks that are kept."""


class SteadyNodeState(InMemoryNodeState):
    """Forgets all but the last finished tasks, and answers for every app that was killed."""

    def finish_task(self, task_id: int, sub_status: str, details: str) -> bool:
        is_finished = super().finish_task(task_id, sub_status, details)
        with self.lock_task_store:
            tasks = self.task_store.items()
            ended = [key for key, task in tasks if task.status.status == Status.FINISHED]
            for key in ended[:-KEPT]:
                del self.task_store[key]
        return is_finished

    def _on_task_tokens_expired(self, tasks: list[Task]) -> None:
        """Let Flower answer with an error, which it does only for messages that were fetched."""
        runs = {task.run_id for task in tasks}
        with self.lock_msg_store:
            for entry in self.msg_store.values():
                entry.is_retrieved |= entry.message.metadata.run_id in runs
        super()._on_task_tokens_expired(tasks)


def use_steady_state() -> None:
    """Make Flower's SuperNode use this state."""
    factory: Any = import_module("flwr.supernode.nodestate.nodestate_factory")
    factory.InMemoryNodeState = SteadyNodeState
