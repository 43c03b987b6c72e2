"""Messages over a pipe: one JSON object, followed by blocks of bytes whose lengths it has told. No pickle."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

_LENGTH = struct.Struct("<Q")
_LONGEST_TEXT = 1 << 30
"""No message has that much JSON: what claims to is none."""

Block: TypeAlias = "bytes | memoryview"


@dataclass(frozen=True, slots=True)
class Message:
    """Plain JSON data, and bytes that are too many for JSON."""

    body: dict[str, Any]
    blocks: Sequence[Block] = ()


def send(stream: BinaryIO, message: Message) -> None:
    """Writes a message; `OSError` when nobody reads any more."""
    text = json.dumps([message.body, [len(block) for block in message.blocks]]).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for block in message.blocks:
        stream.write(block)
    stream.flush()


def receive(stream: BinaryIO) -> Message | None:
    """The next message; None at the end of the stream, also in the middle of a message."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > _LONGEST_TEXT:
        return None
    text = stream.read(length)
    if len(text) < length:
        return None
    body, lengths = json.loads(text)
    blocks = [stream.read(each) for each in lengths]
    if any(len(block) < wanted for block, wanted in zip(blocks, lengths, strict=True)):
        return None
    return Message(body, blocks)
