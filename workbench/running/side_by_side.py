"""Runs steps with no path between them side by side in several threads.

A step waits for the steps that write what it reads, that read what it writes, or that write the same elements. The
threads last as long as the work, so a fork at any other time leaves none behind.
"""

from __future__ import annotations

import heapq
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import TypeAlias

from workbench.ir import TensorType

Reached: TypeAlias = "tuple[str, TensorType]"
"""A storage, and the type of the tensor in it that is read or written."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The storages that a step reads and writes."""

    reads: tuple[Reached, ...]
    writes: tuple[Reached, ...]

    @property
    def elements(self) -> int:
        return sum(kind.numel for _, kind in (*self.reads, *self.writes))


def _apart(one: TensorType, other: TensorType) -> bool:
    """True if two parts of one storage are known to share no element: boxes of the same strides, side by side."""
    if one.strides != other.strides or min(one.strides, default=0) < 1:
        return False
    begins, others = one.offset, other.offset
    for stride, extent, beside in sorted(zip(one.strides, one.shape, other.shape, strict=True), reverse=True):
        (begin, begins), (start, others) = divmod(begins, stride), divmod(others, stride)
        if begin + extent <= start or start + beside <= begin:
            return True
    return False


def waits(steps: Sequence[Touched]) -> tuple[tuple[int, ...], ...]:
    """Returns for each step the earlier steps that it waits for, without those that another of these steps waits
    for."""
    found: list[tuple[int, ...]] = []
    behind: list[int] = []
    """For each step a bit mask of all steps that it comes after, directly or not."""
    readers: defaultdict[str, list[int]] = defaultdict(list)
    writers: defaultdict[str, list[tuple[int, TensorType]]] = defaultdict(list)
    for index, step in enumerate(steps):
        earlier = {each for owner, _ in step.reads for each, _ in writers[owner]}
        for owner, kind in step.writes:
            earlier |= {*readers[owner], *(each for each, other in writers[owner] if not _apart(kind, other))}
        after, direct = 0, list[int]()
        for each in sorted(earlier, reverse=True):
            if not after >> each & 1:
                after |= behind[each] | 1 << each
                direct.append(each)
        behind.append(after)
        found.append(tuple(direct))
        for owner, _ in step.reads:
            readers[owner].append(index)
        for owner, kind in step.writes:
            writers[owner].append((index, kind))
    return tuple(found)


def most_at_once(waiting: Sequence[Sequence[int]], counts: Sequence[bool]) -> int:
    """Returns the most of the counted steps that can run at once, if each step takes as long as another."""
    level: list[int] = []
    for before, counted in zip(waiting, counts, strict=True):
        level.append(max((level[each] for each in before), default=0) + counted)
    reached = [each for each, counted in zip(level, counts, strict=True) if counted]
    return max(map(reached.count, set(reached)), default=0)


@dataclass
class _Work:
    """Steps that threads share; each thread takes the first step that is ready."""

    do: Callable[[int], None]
    order: TopologicalSorter[int]
    ready: list[int]
    failed: dict[int, BaseException] = field(default_factory=dict[int, BaseException])
    changed: threading.Condition = field(default_factory=threading.Condition)
    stopped: bool = False

    def work(self) -> None:
        """Does steps until none is left, or one has failed."""
        while (step := self._next()) is not None:
            try:
                self.do(step)
            except BaseException as error:  # `side_by_side` raises it
                self._finished(step, error)
            else:
                self._finished(step, None)

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def _next(self) -> int | None:
        with self.changed:
            while not self.ready and self.order.is_active() and not self.stopped:
                self.changed.wait()
            return heapq.heappop(self.ready) if self.ready and not self.stopped else None

    def _finished(self, step: int, error: BaseException | None) -> None:
        with self.changed:
            if error is not None:
                self.failed[step], self.stopped = error, True
            self.order.done(step)
            for follower in self.order.get_ready():
                heapq.heappush(self.ready, follower)
            self.changed.notify_all()


def side_by_side(waiting: Sequence[Sequence[int]], threads: int, do: Callable[[int], None]) -> None:
    """Does each step once, after the steps that it waits for; this thread and `threads - 1` more take part.

    If steps fail, raises the error of the first of them, when all steps that had begun are done.
    """
    order = TopologicalSorter(dict(enumerate(waiting)))
    order.prepare()
    work = _Work(do, order, sorted(order.get_ready()))
    helpers = [threading.Thread(target=work.work, name=f"kernels {n}", daemon=True) for n in range(1, threads)]
    try:
        for helper in helpers:
            helper.start()
        work.work()
    finally:
        work.stop()
        for helper in helpers:
            if helper.ident is not None:
                helper.join()
    if work.failed:
        raise work.failed[min(work.failed)]
