"""Messages as bytes, which Flower's public interface does not give."""

from __future__ import annotations

from flwr.app import Message
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as Serialized


def to_bytes(message: Message) -> bytes:
    content: bytes = message_to_proto(message).SerializeToString()
    return content


def from_bytes(content: bytes) -> Message:
    return message_from_proto(Serialized.FromString(content))
