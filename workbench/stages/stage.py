"""A stage of a journey: a method under `@stage(...)`, whose parameters are the artefacts of stages before it."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar, cast, overload

from workbench.ground.environment.progress import waiting
from workbench.ground.environment.turns import compiling, own_lock
from workbench.ground.errors import MissingExtra
from workbench.stages.journey_request import Request
from workbench.stages.options import OPTIONS

T = TypeVar("T")


class Once(Generic[T]):
    """A value that is made at its first use, and the seconds that took. One thread makes the value, others wait."""

    def __init__(
        self, name: str, make: Callable[..., T], inputs: Sequence[Callable[[], object]] = (), *, compiles: bool = True
    ) -> None:
        """`make` computes the value from its inputs. If it `compiles`, the thread must have the turn; else it is made
        without the turn, at the same time as other work.

        The inputs are made first: they have their own seconds, and may need the turn, for which no thread may wait
        while it holds the lock of a stage.
        """
        self.name, self._make, self._inputs, self._compiles = name, make, inputs, compiles
        self._made: list[T] = []
        self._alone = own_lock()
        self.seconds: float | None = None

    def keep(self, value: T) -> None:
        """Stores a value that is known already."""
        self._made.append(value)

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


class Stage(Generic[T]):
    """A stage's method with its name, inputs and options. As an attribute of a journey's stages it is the artefact's
    `Once`."""

    def __init__(
        self,
        method: Callable[..., T],
        name: str,
        reads: tuple[str, ...],
        *,
        compiles: bool,
        stays: Callable[..., bool] | None,
        beside: bool,
    ) -> None:
        self.method, self.name, self.compiles, self.stays = method, name, compiles, stays
        self.beside, self.artefact, self.__doc__ = beside, method.__name__, method.__doc__
        self.inputs = tuple(inspect.signature(method).parameters)[1:]
        self.reads = (*reads, *(option for option, known in OPTIONS.items() if known.read_by == self.artefact))

    @overload
    def __get__(self, stages: None, _: type) -> Stage[T]: ...
    @overload
    def __get__(self, stages: StageTable, _: type) -> Once[T]: ...
    def __get__(self, stages: StageTable | None, _: type) -> Stage[T] | Once[T]:
        return self if stages is None else stages.artefact(self.artefact)


def stage(
    name: str,
    *reads: str,
    compiles: bool = True,
    stays: Callable[..., bool] | None = None,
    beside: bool = False,
) -> Callable[[Callable[..., T]], Stage[T]]:
    """Makes a method of `StageTable` a stage.

    `name` is shown in the progress line and in `j.seconds`, where stages with one name are one entry. If an option
    changes that the stage is the first to read (`Options`), its artefact and all that depend on it are made again;
    `reads` are other changes with this effect. A stage that `compiles` uses PyTorch or MLIR, one thread at a time;
    other stages may run at the same time. `stays` returns, from the inputs, True if the artefact is the same with any
    options. A stage `beside` is not on the way to the timeline.
    """
    return lambda method: Stage(method, name, reads, compiles=compiles, stays=stays, beside=beside)


class StageTable:
    """The artefacts of a journey: each is made once, at its first use, from artefacts of earlier stages."""

    table: ClassVar[tuple[Stage[Any], ...]] = ()
    """The stages in order."""

    def __init_subclass__(cls) -> None:
        cls.table = tuple(cast("Stage[Any]", each) for each in vars(cls).values() if isinstance(each, Stage))

    def __init__(self, request: Request, /, **given: object) -> None:
        """`given` are artefacts that are known already, by the names of their stages."""
        self.request = request
        self._once = dict[str, Once[Any]]()
        for each in self.table:
            self._begin(each)
            if each.artefact in given:
                self._once[each.artefact].keep(given[each.artefact])

    def artefact(self, name: str) -> Once[Any]:
        """The artefact with this name, as a `Once`."""
        return self._once[name]

    def changed(self, request: Request, options: Collection[str]) -> Self:
        """The stages of a request in which these options differ. Artefacts that do not depend on them are shared, even
        if not made yet."""
        stale = self._touched_by(options)
        stale -= {each.artefact for each in self.table if each.artefact in stale and self._stays(each, stale)}
        other = type(self)(request)
        for each in self.table:
            if each.artefact in stale:
                other._begin(each)
            else:
                other._once[each.artefact] = self._once[each.artefact]
        return other

    @property
    def seconds(self) -> dict[str, float]:
        """Wall seconds of every stage on the way to the timeline that has run, by name and in order."""
        took: dict[str, float] = {}
        for each in self.table:
            seconds = self._once[each.artefact].seconds
            if seconds is not None and not each.beside:
                took[each.name] = took.get(each.name, 0.0) + seconds
        return took

    def with_seconds(self, known: Mapping[str, float]) -> Self:
        """Sets the seconds of the stages by name, each at the last stage with the name; returns this table."""
        for name, each in {each.name: each for each in self.table if not each.beside}.items():
            self._once[each.artefact].seconds = known.get(name)
        return self

    def _begin(self, each: Stage[Any]) -> None:
        inputs = [self._once[name] for name in each.inputs]
        self._once[each.artefact] = Once(each.name, partial(self._made, each), inputs, compiles=each.compiles)

    def _made(self, each: Stage[Any], *inputs: object) -> object:
        with self.request.blaming_the_file():
            try:
                return each.method(self, *inputs)
            except ModuleNotFoundError as error:  # opening a saved journey needs no compiler
                if (error.name or "").partition(".")[0] not in ("torch", "torch_mlir"):
                    raise
                raise MissingExtra(
                    f"{error.name} is not installed, and the stage {each.name!r} needs it: pip install aten-workbench. "
                    "On a loaded journey, views, selections and simulation work without it: wb.simulate(j.lowered, "
                    "j.scheduled, machine=...)"
                ) from None

    def _touched_by(self, options: Collection[str]) -> set[str]:
        """The artefacts that these options change: of stages that read the options, and all that depend on these."""
        touched = set[str]()
        for each in self.table:
            if not touched.isdisjoint(each.inputs) or not set(options).isdisjoint(each.reads):
                touched.add(each.artefact)
        return touched

    def _stays(self, each: Stage[Any], stale: Collection[str]) -> bool:
        """True if the artefact is known to stay the same in spite of the changes; False if an input is not made yet."""
        if each.stays is None or not set(each.inputs).isdisjoint(stale):
            return False
        inputs = [self._once[name] for name in each.inputs]
        return all(once.made for once in inputs) and each.stays(*(once() for once in inputs))
