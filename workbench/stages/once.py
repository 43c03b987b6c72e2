"""A value that is made when somebody asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from workbench.environment.progress import waiting
from workbench.environment.turns import own_lock, turn

T = TypeVar("T")


class Once(Generic[T]):
    """A value that is made when it is first asked for, and the seconds it took. Threads that ask wait for one."""

    def __init__(
        self, name: str, make: Callable[..., T], inputs: Sequence[Callable[[], object]] = (), *, compiles: bool = True
    ) -> None:
        """Is made of its inputs by one who has the turn; what does not compile, by one thread beside others' work.

        The inputs are asked for first: they take time of their own, may need the turn, and nobody waits for it with a
        lock of one stage in hand.
        """
        self.name, self._make, self._inputs, self._compiles = name, make, inputs, compiles
        self._made: list[T] = []
        self._alone = own_lock()
        self.seconds: float | None = None

    def keep(self, seconds: float | None) -> Once[T]:
        """The same, made now, with the seconds that it once took elsewhere."""
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
            with turn() if self._compiles else self._alone:
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
