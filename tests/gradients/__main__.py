"""Measures gradients and writes `docs/gradients.md`: `python -m tests.gradients [NAME ...]`.

With names, families or parts of the names of cases, only those are measured, and their rows of the page written anew.
"""

from __future__ import annotations

import argparse
import sys

import torch

from tests.gradients import FAMILIES
from tests.gradients.gradient_case import DTYPES
from tests.gradients.gradient_page import PATH, Rows, cells, known, page
from tests.gradients.measured_gradient import Found, measured
from tests.gradients.on_the_host import REASONS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gradients", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--types", nargs="+", default=list(DTYPES), choices=list(DTYPES))
    given = parser.parse_args()
    names = given.names
    torch.set_num_threads(1)
    before, bad = known(), 0
    rows: dict[str, dict[str, list[str]]] = {}
    for family, cases in FAMILIES.items():
        rows[family] = {name: row for name, row in before.get(family, {}).items() if name in cases}
        for name, case in cases.items():
            if names and not any(part == family or part in name for part in names):
                continue
            types = [dtype for dtype in given.types if case.half or dtype != "bf16"]
            found = {dtype: _said(measured(case, name, dtype)) for dtype in types}
            bad += sum(each is not None and not _right(each) for each in found.values())
            rows[family][name] = cells(found, rows[family].get(name))
            PATH.write_text(page(_in_order(before | rows)))
    return int(bool(bad))


def _in_order(rows: Rows) -> Rows:
    """As in the table; what is no longer there is left out."""
    return {
        family: {name: rows[family][name] for name in cases if name in rows[family]}
        for family, cases in FAMILIES.items()
        if family in rows
    }


def _right(found: Found) -> bool:
    return found.ok and all(op in REASONS for op in found.hosted)


def _said(found: Found | None) -> Found | None:
    if found is not None:
        more = f", {found.differences:.1e} from differences" if found.differences is not None else ""
        said = "ok" if _right(found) else "WRONG" if not found.ok else "no reason"
        hosted = f" host: {' '.join(found.hosted)}" if found.hosted else ""
        sys.stdout.write(f"{said} {found.name}, {found.dtype}: {found.eager:.1e}{more}{hosted} {found.problem}\n")
        sys.stdout.flush()
    return found


if __name__ == "__main__":
    sys.exit(main())
