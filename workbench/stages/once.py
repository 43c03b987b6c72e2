"""A value that is made at its first use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from workbench.ground.environment.progress import waiting
from workbench.ground.environment.turns import compiling, own_lock

T = TypeVar("T")


class Once(Generic[T]):
    """A value that is made at its first use, and the seconds it took. One thread makes it, others wait."""

    def __init__(
        self, name: str, make: Callable[..., T], inputs: Sequence[Callable[[], object]] = (), *, compiles: bool = True
    ) -> None:
        """`make` computes it from its inputs. A thread must hold the turn for it; a value that needs no compiler is
        made without the turn, beside other work.

        The inputs are made first: they have their own seconds, and may need the turn, for which no thread may wait
        while it holds the lock of a stage.
        """
        self.name, self._make, self._inputs, self._compiles = name, make, inputs, compiles
        self._made: list[T] = []
        self._alone = own_lock()
        self.seconds: float | None = None

    def keep(self, seconds: float | None) -> Once[T]:
        """The same, made now, with given seconds."""
        self._made.append(self._make())
        self.seconds = seconds
        return self

    @property
    def made(self) -> bool:
        return bool(self._made)

    def __call__(self) -> T:
        if not self._made:
            if not self._compiles:
                for each in self._inputs:
                    each()
            with compiling() if self._compiles else self._alone:
                if not self._made:
                    self._make_now()
        return self._made[0]

    def _make_now(self) -> None:
        inputs = [each() for each in self._inputs]
        with waiting(self.name):
            began = time.perf_counter()
            made = self._make(*inputs)
            self.seconds = time.perf_counter() - began
        self._made.append(made)
