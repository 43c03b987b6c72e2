"""Writes `docs/operators.md`: every overload that has a kernel or is a view, by the route that its nodes take.

The page has the answer of `wb.ops.who` for every overload that any table or registration here names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import workbench.journey  # noqa: F401 - hands the shipped operators to the registry
from workbench.operators.aten import automatic_route
from workbench.operators.aten.registry import DEFAULT
from workbench.operators.formulas import FAMILIES, FORMULAS, of_family
from workbench.operators.ops.listing import handler

PATH = Path(__file__).resolve().parent.parent / "docs" / "operators.md"

_HEAD = """\
# Operators

The overloads that have kernels, by route. `scripts/make_operators.py` writes this page from the registrations.
`wb.ops.who("aten.add.Tensor")` and `workbench ops aten.add` give the same answer for one operator. PyTorch computes an
overload that is missing here on the host, at the cost of the host link and with a warning; with `on_missing="error"` it
is an error. [Adding an operator](adding-an-op.md) shows how to give it a kernel.
"""


def page() -> str:
    """The whole page."""
    registrations = DEFAULT.now()
    overloads = {*automatic_route.ALL, *FORMULAS, *(item.overload for item in registrations)}
    by_route: dict[str, set[str]] = {}
    for overload in overloads:
        by_route.setdefault(handler(overload, registrations).route, set()).add(overload)
    total = sum(len(names) for route, names in by_route.items() if route not in ("view", "host"))
    parts = [_HEAD, f"{total:,} overloads have kernels, and {len(by_route['view'])} are views, which need none.\n"]
    parts += _section("Templates: written by hand", _by_owner(by_route.get("template", ()), "template"))
    parts += _section("Builders: the arithmetic of one node", _by_owner(by_route.get("builder", ()), "builder"))
    found = by_route["automatic"]
    families = {family: found & set(of_family(family)) for family in FAMILIES}
    parts += _section("Formulas: made of other ops", families.items())
    kinds = {
        kind: {name for name in found - set(FORMULAS) if automatic_route.class_of(name) == kind}
        for kind in automatic_route.KINDS
    }
    parts += _section("Imported by torch-mlir", kinds.items())
    parts += _section("Views: other strides, no kernel", [("", by_route["view"])])
    return "\n".join(parts)


def _by_owner(overloads: Iterable[str], route: str) -> Iterator[tuple[str, set[str]]]:
    """The overloads of each file of `templates`."""
    modules: dict[str, set[str]] = {}
    for item in DEFAULT.now():
        if item.route == route and item.overload in overloads:
            modules.setdefault(item.owner.module.rpartition(".")[2], set()).add(item.overload)
    yield from sorted(modules.items())


def _section(title: str, groups: Iterable[tuple[str, set[str]]]) -> list[str]:
    filled = [(name, overloads) for name, overloads in groups if overloads]
    if not filled:
        return []
    lines = [f"## {title}", ""]
    for name, overloads in filled:
        listed = " ".join(f"`{overload}`" for overload in sorted(overloads))
        lines += [f"**{name.replace('_', ' ')}** ({len(overloads)}): {listed}" if name else listed, ""]
    return lines


def main() -> None:
    PATH.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
