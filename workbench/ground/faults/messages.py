"""Messages over a pipe: one JSON object with the lengths of the blocks of bytes that follow it. No pickle.

The pipes are the standard input and output of the worker, which every system gives to a child. The worker takes them at
its start (`taken`): from then on libraries print to standard error, and read nothing.
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
"""The most bytes of a message's JSON: a longer one is not a message."""

Block: TypeAlias = "bytes | memoryview"


@dataclass(frozen=True, slots=True)
class Message:
    """Plain JSON data, and bytes that are too many for JSON."""

    body: dict[str, Any]
    blocks: Sequence[Block] = ()


def send(stream: BinaryIO, message: Message) -> None:
    """Writes a message; `OSError` when the reader has gone."""
    text = json.dumps([message.body, [len(block) for block in message.blocks]]).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for block in message.blocks:
        stream.write(block)
    stream.flush()


def taken() -> tuple[BinaryIO, BinaryIO]:
    """Takes the ends of this process's pipes, to read and to write messages; no other code in it can use them
    afterwards."""
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
    """Skips a process's output from before it took its pipes; returns True if messages begin after it."""
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
