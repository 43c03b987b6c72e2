"""Writes the results of a sweep of gradients as `docs/gradients.md`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.gradients.gradient_case import DTYPES
from tests.gradients.measured_gradient import Found
from tests.gradients.on_the_host import REASONS, REFUSED

PATH = Path(__file__).resolve().parents[2] / "docs" / "gradients.md"
COLUMNS = ("case", "f64", "differences", "f32", "bf16", "on the host")
_HEAD = """\
# Gradients, measured

Written by `make gradients` (`python -m tests.gradients`), which traces a training step of each call with `train=True`
and runs it. The gradients of all float tensors among the call's arguments are compared with two others.

* **Eager PyTorch's** in f64, f32 and, where a layer is trained in 16 bits, bf16: the largest distance from eager's
  gradient, in units of the largest number of that gradient. `j.check()` decides whether the gradient is right
  ([allowed errors](checking.md)). In bf16 a kernel rounds once; PyTorch may also round intermediate values.
* **Differences** in f64: each number (24 of a tensor, if it has more) is moved by 1e-5 up and down; then all numbers
  together are moved along a random direction, twice. The journey's own loss, run again each time, gives the slope.
  The largest distance is divided by the largest gradient, or by 1 if that is larger; 1e-6 is allowed.

A dash means that PyTorch has no such gradient, that the type was not tried, or that the gradient is by definition not
that of the loss (padding of an embedding). **Bold** gradients are wrong. The last column names ops that the host
computes, with the reasons below the tables. `python -m tests.gradients NAME ...` measures some again: families, or
cases whose names contain NAME. A sample is part of `make test-all`.
"""

Rows = Mapping[str, Mapping[str, list[str]]]
"""Family -> case -> its cells."""


def known() -> dict[str, dict[str, list[str]]]:
    """The rows of the page as it is."""
    rows: dict[str, dict[str, list[str]]] = {}
    for family, body in re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", _text(), re.M | re.S):
        cells = [line.strip("| \n").split(" | ") for line in body.splitlines() if line.startswith("| ")]
        rows[family] = {row[0]: row[1:] for row in cells if row[0] != COLUMNS[0]}
    return rows


def _text() -> str:
    return PATH.read_text() if PATH.exists() else ""


def cells(found: Mapping[str, Found | None], before: Sequence[str] | None) -> list[str]:
    """Of one case, from what was found in each type; other types' cells are as before."""
    cells = list(before or ("-", "-", "-", "-", _NONE))
    for dtype, each in found.items():
        cells[_PLACES[dtype]] = _number(each and each.eager, each)
    if "f64" in found:
        cells[1] = _number((wide := found["f64"]) and wide.differences, wide)
    hosted = {f"`{op}`" for each in found.values() if each for op in each.hosted}
    if "f64" not in found and before:
        hosted |= {*before[-1].split()} - {_NONE}
    cells[-1] = " ".join(sorted(hosted)) or _NONE
    return cells


_NONE = "none"
_PLACES = {dtype: COLUMNS[1:].index(dtype) for dtype in DTYPES}


def _number(value: float | None, found: Found | None) -> str:
    if value is None or found is None:
        return "-"
    if found.refused:
        return "refused"
    said = f"{value:.0e}" if value else "0"
    return said if found.ok else f"**{said}**"


def page(rows: Rows) -> str:
    """The whole page."""
    every = [row for cases in rows.values() for row in cases.values()]
    tried = [cell for row in every for cell in (row[0], *row[2:4]) if cell != "-"]
    beside = sum(row[1] != "-" for row in every)
    wrong = sum("**" in cell for row in every for cell in row[:4])
    refused = [name for cases in rows.values() for name, row in cases.items() if "refused" in row]
    free = sum(row[-1] == _NONE for row in every) - len(refused)
    said = (
        f"{len(every)} calls, {len(tried)} with their types: {free} calls run without the host, "
        f"{len(refused)} are refused, {beside} are compared with differences, {wrong} cells are wrong."
    )
    lines = [_HEAD, said, ""]
    for family, cases in rows.items():
        lines += [f"## {family}", "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
        lines += [f"| {name} | {' | '.join(row)} |" for name, row in cases.items()] + [""]
    named = {op for row in every for op in re.findall(r"`([\w.]+)`", row[-1])}
    lines += ["## Why on the host", ""] + [f"* `{op}`: {REASONS.get(op, '?')}" for op in sorted(named)]
    lines += ["", "## Why refused", ""] + [f"* {name}: {REFUSED[name]}" for name in refused]
    return "\n".join(lines) + "\n"
