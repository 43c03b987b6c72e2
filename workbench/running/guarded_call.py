"""A worker's trial call of a kernel, on separate memory that shows where the kernel writes.

Each argument lies between two zones of known bytes, and beyond each zone is a page that cannot be touched. A write into
a zone is found afterwards and reported in bytes; a write beyond the zone ends the worker. In a second call the
arguments end right at such a page, so that reading past an end is found as well. If a system has no such pages
(`faults.fences`), only the zones remain.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from workbench.ground.environment.processor import processor, processor_named
from workbench.ground.faults.fences import fence
from workbench.ground.faults.messages import Block, Message
from workbench.ground.faults.trial import TRIALS, Trial
from workbench.ir import Kernel
from workbench.ir.kernel_identity import nameless
from workbench.operators.tensors.kernel_function import KernelFunction
from workbench.operators.tensors.tensor_memory import span
from workbench.running.jit import COMPILERS, NativeKernel
from workbench.running.machine_code import target

_PAGE: Final = mmap.PAGESIZE
_ZONE: Final = 16 * _PAGE
"""The number of bytes that are watched on either side of an argument: a row or two of most tensors."""

_PATTERNS: Final = (0xA5, 0x5A)
"""Two patterns in which every bit differs: a stray byte that equals one pattern shows against the other, in the other
call."""


@dataclass(frozen=True)
class Arguments:
    """A kernel's arguments: their names in messages, and the tensors, inputs first."""

    names: tuple[str, ...]
    tensors: Sequence[torch.Tensor]
    inputs: int


def run_trial(form: str, text: str, kernel: str, nodes: Sequence[str], given: Arguments) -> Trial:
    """Returns the trial of a kernel: the kernel must compile, and keep to its memory when it is called on these
    tensors."""
    key = hashlib.sha256("\0".join([form, nameless(text, kernel), target()]).encode()).hexdigest()

    def material() -> Message:
        body = {"form": form, "text": text, "kernel": kernel, "names": given.names, "inputs": given.inputs}
        body["processor"] = processor().name
        return Message(body, [_content(tensor) for tensor in given.tensors[: given.inputs]])

    return Trial("run", key, material, kernel, nodes)


def try_run(job: Message, say: Callable[[str], None]) -> str:
    """In the worker: compiles the kernel of a `run_trial` and calls it; returns the stray writes, if any."""
    body = job.body
    say("compile")
    native = COMPILERS[body["form"]](body["text"], body["kernel"], processor_named(body["processor"]))
    outputs = [None] * (len(native.layouts) - body["inputs"])
    return run_watched(native, body["names"], [*job.blocks, *outputs], say)


def run_watched(
    native: NativeKernel, names: Sequence[str], contents: Sequence[Block | None], say: Callable[[str], None]
) -> str:
    """Calls a kernel twice on watched memory; `contents` are the bytes of each input, None for an output."""
    for pattern, tight in zip(_PATTERNS, (False, True), strict=True):
        say("run at the very end of its memory" if tight else "run")
        fenced = [
            _Fenced(name, layout.span_bytes, pattern, content, tight=tight)
            for name, layout, content in zip(names, native.layouts, contents, strict=True)
        ]
        native.call_at([each.address for each in fenced])
        if found := [finding for each in fenced for finding in each.findings()]:
            return "; ".join(found)
    return ""


class _Fenced:
    """The memory of one argument, and its zones."""

    def __init__(self, name: str, size: int, pattern: int, content: Block | None, *, tight: bool) -> None:
        self._name, self._pattern, self._content = name, pattern, content
        watched = math.ceil(size / _PAGE) * _PAGE + (_ZONE if tight else 2 * _ZONE)
        self._map = mmap.mmap(-1, watched + 2 * _PAGE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._last = _PAGE + watched
        self._start = self._last - size if tight else _PAGE + _ZONE
        self._end = self._start + size
        ctypes.memset(self._base + _PAGE, pattern, watched)
        if content is not None:
            self._map[self._start : self._end] = content
        if fenced := fence():
            for page in (0, self._last):
                fenced[1](self._base + page, _PAGE)

    @property
    def address(self) -> int:
        return self._base + self._start

    def findings(self) -> list[str]:
        """The stray writes around the argument."""
        found: list[str] = []
        before, after = (self._map[_PAGE : self._start], self._map[self._end : self._last])
        if reach := len(before) - _first_other(before, self._pattern):
            found.append(f"writes {reach:,} bytes in front of argument {self._name}")
        if reach := len(after) - _first_other(after[::-1], self._pattern):
            found.append(f"writes {reach:,} bytes past argument {self._name}")
        if self._content is not None and self._map[self._start : self._end] != bytes(self._content):
            found.append(f"writes into argument {self._name}, which is an input")
        return found


def _first_other(content: bytes, pattern: int) -> int:
    """The place of the first byte that differs from the pattern; the length if all bytes are the pattern's."""
    return len(content) - len(content.lstrip(bytes([pattern])))


def _content(tensor: torch.Tensor) -> Block:
    """The bytes from a tensor's first element to its last, with the bytes between elements."""
    elements = span(tensor)
    if not elements:
        return b""
    return memoryview((ctypes.c_char * (elements * tensor.itemsize)).from_address(tensor.data_ptr())).cast("B")


@dataclass
class TriedKernel:
    """A kernel that this process calls only after a worker's trial of it has passed."""

    get: Callable[[], NativeKernel]
    form: str
    text: str
    kernel: Kernel
    nodes: tuple[str, ...]
    passed: bool = False

    def __call__(self) -> KernelFunction:
        return self.get() if self.passed else self._run

    def is_remembered(self) -> bool:
        """True if this process knows that the trial has passed: then nothing is left to try."""
        self.passed = self.passed or TRIALS.remembers(self._trial(()))
        return self.passed

    def _run(self, tensors: Sequence[torch.Tensor]) -> None:
        TRIALS.pass_or_raise(self._trial(tensors))
        self.passed = True
        self.get()(tensors)

    def _trial(self, tensors: Sequence[torch.Tensor]) -> Trial:
        names = (*self.kernel.inputs, *self.kernel.outputs)
        given = Arguments(names, tensors, len(self.kernel.inputs))
        return run_trial(self.form, self.text, self.kernel.name, self.nodes, given)
