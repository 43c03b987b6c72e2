"""The registry as a table, and the route of an overload as a sentence."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ground.environment.owners import Owner
from workbench.operators.aten import overload_names
from workbench.operators.aten.automatic_route import class_of
from workbench.operators.aten.registry import DEFAULT, Registrations
from workbench.operators.formulas import FORMULAS

COLUMNS = ("overload", "route", "owner", "file", "line", "dialect", "kind")


@dataclass(frozen=True, slots=True)
class Who:
    """The route of an overload, and the reason."""

    overload: str
    route: str
    """template, builder, automatic, view or host."""
    why: str
    owner: Owner | None = None

    def __str__(self) -> str:
        return f"{self.overload}: {self.route}, {self.why}"


def rows(registrations: Registrations) -> tuple[tuple[str | int, ...], ...]:
    """One row for each registration, sorted by overload."""
    found: list[tuple[str | int, ...]] = []
    for item in sorted(registrations, key=lambda item: item.overload):
        by, what = item.owner, (item.dialect, item.kind)
        found.append((item.overload, item.route, f"{by.module}.{by.name}", by.file, by.line, *what))
    return tuple(found)


def handlers(overload: object, *, prefer: str | None = None) -> tuple[Who, ...]:
    """The route of each overload of a name."""
    registrations = DEFAULT.now()
    registrations.check_preferred(prefer)
    return tuple(handler(name, registrations, prefer) for name in overload_names.overloads(overload))


def handler(overload: str, registrations: Registrations, prefer: str | None = None) -> Who:
    """The route that nodes of an overload take."""
    item = registrations.kernel_maker(overload, prefer)
    if item is not None:
        what = f" in {item.dialect}" if item.dialect else ""
        why = f"registered{what} by {item.owner.name} of {item.owner.module} at {item.owner.place}"
        return Who(overload, item.route, why, item.owner)
    kind = class_of(overload)
    if kind == "view":
        return Who(overload, "view", "other strides over its operand: no kernel, no bytes")
    if kind == "assembly":
        return Who(overload, "view", "its parts are computed in place, or copied there")
    if overload in FORMULAS:
        rest = f", where the formula covers the call; else torch-mlir imports it ({kind})" if kind else ""
        return Who(overload, "automatic", f"decomposed by its formula in workbench/operators/formulas{rest}")
    if kind is not None:
        return Who(overload, "automatic", f"torch-mlir imports it ({kind})")
    return Who(overload, "host", "it has no kernel: PyTorch computes it on the host, over the host link")
