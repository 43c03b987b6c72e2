"""The registrations of operators: one table, by overload, route and dialect.

A registration gives one overload a value (a template class, a builder function, ...) on one route. A node then takes
the first route it has: template, builder, automatic, host (see lowering/lower.py). Names are exact: `aten.add.Tensor`
never stands for `aten.add.Scalar`, and `aten.add` without an overload registers every overload over tensors that the op
has at that moment. The namespace is part of the name.

A journey keeps the `Registrations` of its trace, so later registrations, or the end of a scope, do not change it.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from simulator.did_you_mean import did_you_mean
from workbench.ground import errors
from workbench.ground.environment import registered
from workbench.ground.environment.owners import Owner
from workbench.ground.environment.turns import collecting_later, own_lock
from workbench.ground.offers import shipped_operators
from workbench.ir import Node, TensorType

V = TypeVar("V", bound=Callable[..., object])

Takes = Callable[[Node, Mapping[str, TensorType]], bool]
"""True for a node that a template or builder takes; called with the node and the types of the values in its graph."""

KINDS: Final = ("elementwise", "creation", "gather", "reduction", "contraction", "tile", "opaque")
"""The kind of an op for the fusion rules. A creation op reads no tensor, and is computed again for each of its readers.
A gather is elementwise for its readers, and needs its operand in memory, as a whole. An opaque op gets a kernel of its
own. A tile op is a template that takes pointwise neighbours into its kernel, by its prologue and epilogue hooks."""

DIALECTS: Final = (
    *("affine", "arith", "bufferization", "complex", "index", "linalg", "math"),
    *("memref", "scf", "shape", "tensor", "tosa", "ub", "vector"),
)
"""The dialects of builders: MLIR's dialects that belong to no hardware."""


Refuses = Callable[[Node, Mapping[str, TensorType]], str]
"""Returns the reason why a template cannot be the only kernel of a node; empty if it can."""


@dataclass(frozen=True, slots=True)
class OneKernel:
    """A template that computes an op in one kernel, where the op's formula needs several. A user who turns off the
    fusion rule named `rule` turns the template off. If `refuses` returns a reason, the formula's kernels show it as the
    reason why they are not fused."""

    rule: str
    refuses: Refuses


def yes_or_no(answer: object) -> bool | None:
    """Returns the answer of a `takes=` function, a bool of Python, NumPy or PyTorch, as a Python bool; None for
    anything else, because Python would read a text such as "no" as true."""
    kind, shape = str(getattr(answer, "dtype", "")), getattr(answer, "shape", None)
    is_scalar = kind in ("bool", "torch.bool") and shape == ()  # a saved journey is read without PyTorch
    return bool(answer) if isinstance(answer, bool) or is_scalar else None


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of one value for one overload on one route."""

    overload: str
    """`aten.add.Tensor`: namespace, op and overload."""
    route: str
    """template, builder, conversion or executor."""
    owner: Owner
    value: Callable[..., object]
    kind: str = ""
    """One of `KINDS` for templates and builders, empty for other routes."""
    dialect: str = ""
    """The dialect of a builder; empty for the others."""
    shipped: bool = False
    """True if the registration is part of the workbench: a user's registration for the overload takes precedence."""
    takes: Takes | None = None
    """Returns True for the nodes of the overload that the registration takes; None takes all. Other nodes take their
    next route."""
    one_kernel: OneKernel | None = None
    """Set for a template whose op also has a formula."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.overload, self.route, self.dialect

    def takes_node(self, node: Node, types: Mapping[str, TensorType]) -> bool:
        """True if the registration takes this node. An exception in `takes=` becomes an error that names the
        registration's owner."""
        if self.takes is None:
            return True
        try:
            answer = self.takes(node, types)
        except (Exception, SystemExit) as error:
            raise errors.BadRegistration(
                f"takes= of the {self.route} of {self.overload} at {self.owner.place} raised {type(error).__name__}: "
                f"{error}, for {node.name}; expected a function of a node and the types by value, as in "
                f"takes=lambda node, types: types[node.results[0]].dtype == 'f32'"
            ) from error
        if (taken := yes_or_no(answer)) is None:
            who = f"takes= of the {self.route} of {self.overload} at {self.owner.place}"
            raise errors.BadRegistration(f"{who} returned {answer!r:.60}, for {node.name}; expected True or False")
        return taken


@dataclass(frozen=True)
class Registrations:
    """Registrations as they were at one moment."""

    by_key: Mapping[tuple[str, str, str], Registration] = field(
        default_factory=dict[tuple[str, str, str], Registration]
    )

    def __iter__(self) -> Iterator[Registration]:
        return iter(self.by_key.values())

    def __len__(self) -> int:
        return len(self.by_key)

    def find(self, overload: str, route: str, prefer: str | None = None) -> Registration | None:
        """The overload's registration on the route: in the preferred dialect if there is one, else a user's, else a
        shipped one."""
        found = [item for item in self if item.overload == overload and item.route == route]
        found.sort(key=lambda item: item.shipped)
        preferred = [item for item in found if item.dialect == prefer]
        return next(iter([*preferred, *found]), None)

    def kernel_maker(self, overload: str, prefer: str | None = None) -> Registration | None:
        """The template, or else the builder, that makes the overload's kernel; a user's comes before a shipped one."""
        return next(iter(self._kernel_makers(overload, prefer)), None)

    def kernel_maker_of(
        self, node: Node, types: Mapping[str, TensorType], prefer: str | None = None
    ) -> Registration | None:
        """The template or builder that makes one node's kernel: the first of the overload's that takes the node."""
        makers = self._kernel_makers(node.op, prefer)
        return next((item for item in makers if item.takes_node(node, types)), None)

    def _kernel_makers(self, overload: str, prefer: str | None) -> list[Registration]:
        found = [item for route in ("template", "builder") if (item := self.find(overload, route, prefer))]
        return sorted(found, key=lambda item: item.shipped)

    def of(self, overload: str) -> tuple[Registration, ...]:
        """Every registration of the overload."""
        return tuple(item for item in self if item.overload == overload)

    @property
    def dialects(self) -> tuple[str, ...]:
        """The dialects that builders are registered in."""
        return tuple(sorted({item.dialect for item in self if item.dialect}))

    def check_preferred(self, dialect: object) -> None:
        """Raises for a preferred dialect in which no builder is registered."""
        if dialect is not None and dialect not in tuple(self.dialects):
            there = f"; there are {', '.join(map(repr, self.dialects)) or 'none'}"
            near = (did_you_mean(dialect, self.dialects) if isinstance(dialect, str) else "") or there
            raise errors.BadOption(f"prefer={dialect!r:.60}: no builder is registered in that dialect{near}")


class Registry:
    """Registrations that can be added to, replaced and, with a scope, undone."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, str, str], Registration] = {}
        self._fill: Callable[[Registry], None] | None = None
        self._lock = own_lock()
        """Held while the shipped operators are registered and while a scope ends, so that no other thread sees a
        half-done change."""

    def fill_from(self, fill: Callable[[Registry], None]) -> None:
        """Sets the function that registers the shipped operators. It runs once, before the first use of the
        registry."""
        self._fill = fill

    def _filled(self) -> dict[tuple[str, str, str], Registration]:
        with self._lock:
            if self._fill is not None:
                shipped = Registry()
                with collecting_later():  # filling imports MLIR
                    self._fill(shipped)
                self._by_key = {key: replace(item, shipped=True) for key, item in shipped._by_key.items()}
                self._fill = None
            return self._by_key

    def now(self) -> Registrations:
        """A copy of the current registrations; later changes do not affect it."""
        with self._lock:
            return Registrations(dict(self._filled()))

    def template(
        self,
        *overloads: object,
        kind: str = "opaque",
        takes: Takes | None = None,
        one_kernel: OneKernel | None = None,
    ) -> Callable[[V], V]:
        """Decorates a template class: it renders the kernel of these overloads itself."""
        return self._decorator("template", overloads, kind=kind, takes=takes, one_kernel=one_kernel)

    def builder(
        self, *overloads: object, dialect: str, kind: str = "opaque", takes: Takes | None = None
    ) -> Callable[[V], V]:
        """Decorates a builder: it makes the MLIR of one node of these overloads, in `dialect`, from its operands."""
        return self._decorator("builder", overloads, kind=kind, dialect=dialect, takes=takes)

    def conversion(self, *overloads: object) -> Callable[[V], V]:
        """Decorates a conversion: from a captured node to the node, or nodes, that are recorded."""
        return self._decorator("conversion", overloads)

    def executor(self, *overloads: object) -> Callable[[V], V]:
        """Decorates an executor: `(inputs, attributes) -> list of tensors`, in place of calling the overload."""
        return self._decorator("executor", overloads)

    def _decorator(
        self,
        route: str,
        overloads: tuple[object, ...],
        *,
        kind: str = "",
        dialect: str = "",
        takes: Takes | None = None,
        one_kernel: OneKernel | None = None,
    ) -> Callable[[V], V]:
        if not overloads or (len(overloads) == 1 and isinstance(overloads[0], types.FunctionType | type)):
            raise errors.BadRegistration(
                f"@wb.ops.{route} was given no overload; write the exact name of its overload, as in "
                f'@wb.ops.{route}("aten.hypot.default"{", dialect=..." if route == "builder" else ""})'
            )

        def decorate(value: V) -> V:
            for overload in overloads:
                for name in _overloads(overload):
                    owner = Owner.of(value)
                    self.add(Registration(name, route, owner, value, kind, dialect, False, takes, one_kernel))
            return value

        return decorate

    def add(self, new: Registration) -> None:
        """Adds a registration, in place of an older one of the same owner; refuses another owner's."""
        if not callable(new.value):
            raise errors.BadRegistration(
                f"the {new.route} of {new.overload} is {new.value!r}; expected a function or a class"
            )
        for name, given in (("kind", new.kind), ("dialect", new.dialect)):
            if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance] - what a user passes
                raise errors.BadRegistration(
                    f"{name}={given!r} of the {new.route} of {new.overload} at {new.owner.place}: expected text"
                )
        if new.kind and new.kind not in KINDS:
            raise errors.BadRegistration(
                f"kind={new.kind!r} of the {new.route} of {new.overload} at {new.owner.place} is unknown; "
                f"expected one of {', '.join(KINDS)}"
            )
        if new.dialect and new.dialect not in DIALECTS:
            raise errors.BadRegistration(
                f"dialect={new.dialect!r} of the {new.route} of {new.overload} at {new.owner.place} is none of "
                f"MLIR's{did_you_mean(new.dialect, DIALECTS)}; expected its main dialect, one of "
                f"{', '.join(DIALECTS)}"
            )
        with self._lock:
            self._add(new)

    def _add(self, new: Registration) -> None:
        old = self._filled().get(new.key)
        if old is not None and not new.owner.replaces(old.owner):
            raise errors.RegistrationClash(
                f"{new.overload} has a {new.route}{f' in {new.dialect}' if new.dialect else ''} already: "
                f"{old.owner.name} of {old.owner.module}, {old.owner.place}. {new.owner.name} of "
                f"{new.owner.module}, {new.owner.place}, registers it too. Keep one of them, or remove the old "
                f"one first: wb.ops.drop({new.overload!r}), inside `with wb.ops.scope():` if only for a while"
            )
        self._by_key[new.key] = new

    def drop(self, overload: object, route: str | None = None) -> None:
        """Removes all registrations of an overload, or those on one route."""
        wanted = set(_overloads(overload))
        with self._lock:
            gone = [key for key in self._filled() if key[0] in wanted and route in (None, key[1])]
            if not gone:
                raise errors.BadRegistration(f"no registration exists for {' or '.join(sorted(wanted))} to drop")
            for key in gone:
                del self._by_key[key]

    @contextlib.contextmanager
    def scope(self) -> Generator[None]:
        """Undoes at its end all registrations, replacements and removals inside: of operators, and also of passes,
        views and rules of findings."""
        before, named = dict(self.now().by_key), registered.now()
        try:
            yield
        finally:
            with self._lock:
                self._by_key.clear()
                self._by_key.update(before)
            registered.put_back(named)


DEFAULT: Final = Registry()
"""The registry that `wb.ops` writes to and journeys read: the one thing here that changes while a process runs."""

DEFAULT.fill_from(lambda registry: shipped_operators()(registry))


def registered_template(registrations: Registrations, node: Node) -> Callable[..., object]:
    """The template class of a node that was lowered for one."""
    found = registrations.find(node.op, "template")
    if found is None:
        raise errors.RegistrationGone(
            f"{node.name} was lowered for a template of {node.op}, but no such template is registered now. "
            "Register it again, or lower again"
        )
    return found.value


def _overloads(given: object) -> tuple[str, ...]:
    from workbench.operators.aten import (
        overload_names,  # only here: the module loads torch, which reading the registry does not need
    )

    return overload_names.overloads(given)
