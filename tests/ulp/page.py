"""Writes the results of a sweep as `docs/ulp.md`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.ulp.exceptions import EXCEPTIONS
from tests.ulp.ulp_sweep import DTYPES, Found

PATH = Path(__file__).resolve().parents[2] / "docs" / "ulp.md"
_ROW = re.compile(r"^\| `([\w.]+)`(?: \[\d+\])? \| (.*) \|$", re.MULTILINE)
_NOT_TAKEN = "-"

_HEAD = """\
# Errors of single operators

Written by `make ulp` (`python -m tests.ulp`), which measures every pointwise operator and reduction that has a kernel,
on numbers of all sizes: denormals, powers of two and their neighbours, places near poles and zeros, infinities, NaN,
both zeros, random bit patterns; operators of one tensor get all 65,536 numbers of a 16-bit type. Reductions get rows of
different data: plain, with a large mean, alternating, tiny, huge, constant, with infinities and NaN.

Each cell has the largest error of the kernel, then PyTorch's own, in units in the last place of the type, compared with
the same operator in float64. Operators in f64 are compared with mpmath with 240 bits on fewer points, or with PyTorch
if they have no entry in `tests/ulp/exactly.py`. The unit is that of the true result. Sums and means are measured in
the unit of the sum of absolute values, since cancellation leaves no digits to compare; normalised rows in the unit of
the row's largest number over its spread. The kernel's error may be four times PyTorch's largest error and one unit. The
NaN, the infinity and the sign of zero must be those of the true result or of PyTorch; other elements are counted as "of
another kind". Cells beyond the bound are **bold**, with the reason under "Exceptions". `python -m tests.ulp NAME`
measures some operators again.
"""

Cells = Mapping[str, Sequence[str]]
"""The cells of each overload's row."""


def known() -> dict[str, list[str]]:
    """The rows of the page as it is."""
    text = PATH.read_text() if PATH.exists() else ""
    return {name: cells.split(" | ") for name, cells in _ROW.findall(text)}


def rows(names: Sequence[str], found: Sequence[Found]) -> dict[str, list[str]]:
    """The rows of some overloads, from what was found of them."""
    cells = {(each.overload, each.dtype): each for each in found}
    return {name: [_cell(cells.get((name, dtype))) for dtype in DTYPES] for name in names}


_EXCEPTED = (
    "Operators whose kernels differ from PyTorch in some elements, including the signs of zero and NaN. "
    "Only **bold** cells are beyond the bound."
)


def page(cells: Cells) -> str:
    """The whole page."""
    names = sorted(cells)
    excepted = [name for name in names if name in EXCEPTIONS]
    lines = [_HEAD, _counted(cells), "", "| overload | " + " | ".join(DTYPES) + " |"]
    lines.append("|---" * (1 + len(DTYPES)) + "|")
    for name in names:
        mark = f" [{excepted.index(name) + 1}]" if name in EXCEPTIONS else ""
        lines.append(f"| `{name}`{mark} | " + " | ".join(cells[name]) + " |")
    lines += ["", "## Exceptions", "", _EXCEPTED, ""]
    for place, name in enumerate(excepted, 1):
        lines.append(f"{place}. `{name}`: {EXCEPTIONS[name].text()}")
    return "\n".join(lines) + "\n"


def _counted(cells: Cells) -> str:
    measured = [cell for row in cells.values() for cell in row if cell != _NOT_TAKEN]
    beyond = sum(cell.startswith("**") for cell in measured)
    said = f"{len(measured)} combinations of an overload and a type: {len(measured) - beyond} are within the bound"
    return f"{said}, {beyond} are not. A dash: PyTorch does not take the type."


def _cell(found: Found | None) -> str:
    if found is None:
        return _NOT_TAKEN
    more = f", {found.classes} of another kind" if found.classes else ""
    said = f"{_number(found.ours)} / {_number(found.native)}{more}"
    return said if found.within else f"**{said}**"


def _number(value: float) -> str:
    return f"{value:.2g}" if value < 1000 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def line(found: Found) -> str:
    """One result for the terminal."""
    said = "ok" if found.ok else "beyond"
    return f"{said} {found.overload} {found.dtype}: {_cell(found)} {'' if found.ok else found.worst}"
