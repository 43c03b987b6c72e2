"""Writes the table of docs/design/torch-inside.md: each private part of PyTorch that the workbench takes, and what for.

`python scripts/torch_inside_page.py` writes; with `--check` it only fails where the page differs.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.check_private_torch import BORDER, Taken, needs  # noqa: E402 - found from the root, wherever this runs
from scripts.written_files import write_or_check  # noqa: E402

PAGE = "docs/design/torch-inside.md"
FIRST_LINE = "## What is taken"
"""The heading that begins what this script writes."""


def page(root: Path) -> str:
    """The page with its table as the sources say it."""
    before = (root / PAGE).read_text(encoding="utf-8").partition(FIRST_LINE)[0]
    taken = sorted(needs(root), key=lambda each: (each.file.name, each.line))
    files = len({each.file for each in taken})
    parts = len({path for each in taken for path in each.paths})
    counted = f"{len(taken)} needs in {files} files take {parts} parts of PyTorch. `{TEST}` has a test for each."
    return "\n".join([f"{before}{FIRST_LINE}", "", counted, "", *_HEAD, *map(_row, taken), ""])


TEST = "tests/torch_inside/test_torch_needs.py"
_HEAD = ("| file | need | what for | taken from PyTorch | public way |", "|---|---|---|---|---|")


def _row(each: Taken) -> str:
    names = ", ".join(f"`{one.strip('(),')}`" for one in each.names)
    parts = "<br>".join(f"`{path}`" for path in each.paths)
    name = each.file.name
    return f"| [{name}](../../{BORDER}/{name}) | {names} | {each.use} | {parts} | {each.instead} |"


def main() -> int:
    return write_or_check(lambda root: iter([(root / PAGE, page(root))]), "scripts/torch_inside_page.py")


if __name__ == "__main__":
    sys.exit(main())
