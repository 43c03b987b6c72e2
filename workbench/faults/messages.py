"""Messages over a pipe: one JSON object, followed by blocks of bytes whose lengths it has told. No pickle.

The pipes are the standard input and output of the process that is asked, which every system gives to a child. It takes
them for itself at its very beginning (`taken`): what libraries print goes where errors go, and nothing can be read.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

_LENGTH = struct.Struct("<Q")
_BEGIN = b"\0workbench messages\0"
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


def taken() -> tuple[BinaryIO, BinaryIO]:
    """The ends of this process's pipes, messages to read and to write, which nothing else in it can reach any more."""
    requests, answers = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    if sys.platform == "win32":
        msvcrt = importlib.import_module("msvcrt")
        for end in (requests, answers):
            msvcrt.setmode(end, os.O_BINARY)
    reader, writer = os.fdopen(requests, "rb"), os.fdopen(answers, "wb")
    writer.write(_BEGIN)
    return reader, writer


def begins(stream: BinaryIO) -> bool:
    """Whether messages begin here, after whatever a process said before it took its pipes."""
    seen = b""
    while not seen.endswith(_BEGIN):
        byte = stream.read(1)
        if not byte:
            return False
        seen = (seen + byte)[-len(_BEGIN) :]
    return True


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
