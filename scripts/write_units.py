"""Writes what follows from the files of units: the rows of unit_table.py, and the numbers of opcodes.

`python scripts/write_units.py` writes; with `--check` it only fails where something differs. A file of
`simulator/units` with a `UNIT` is a unit. A new one comes after those in the table, and its opcodes after those with a
number, which never change: files of programs have them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.written_files import write_or_check

TABLE: Final = "simulator/units/unit_table.py"
OPCODES: Final = "simulator/tileprogram/opcodes.py"
_ROW: Final = re.compile(r"(?<=^OF_A_CORE: Final\[tuple\[Unit, \.\.\.\]\] = \().*?(?=\)$)", re.M | re.S)
_IMPORT: Final = re.compile(r"^from simulator\.units import .*?$", re.M)
_NUMBERS: Final = re.compile(r"(?<=^class Opcode\(IntEnum\):\n).*?(?=\n\n\n)", re.M | re.S)


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Each file that follows from those of units, with the text that it should have."""
    units = _units(root)
    table, opcodes = (root / path for path in (TABLE, OPCODES))
    text, numbers = table.read_text(encoding="utf-8"), opcodes.read_text(encoding="utf-8")
    known = [name for name in re.findall(r"(\w+)\.UNIT", _ROW.findall(text)[0]) if name in units]
    rows = [*known, *(name for name in sorted(units) if name not in known and name != "host")]
    text = _ROW.sub(", ".join(f"{name}.UNIT" for name in rows), text)
    yield table, _IMPORT.sub(f"from simulator.units import {', '.join(sorted(units))}", text)

    body = _NUMBERS.findall(numbers)[0]
    numbered = dict(re.findall(r"^    (\w+) = (\d+)$", body, re.M))
    new = [name for unit in rows for name in units[unit] if name not in numbered]
    first = 1 + max(map(int, numbered.values()))
    added = "".join(f"\n    {name} = {number}" for number, name in enumerate(new, first))
    yield opcodes, numbers.replace(body, body + added)


def _units(root: Path) -> dict[str, list[str]]:
    """The opcodes of each unit, by the name of its file."""
    found = {}
    for path in (root / TABLE).parent.glob("*.py"):
        for line in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(line, ast.Assign) and [ast.unparse(each) for each in line.targets] == ["UNIT"]:
                assert isinstance(line.value, ast.Call), f"{path}: expected UNIT = Unit(...)"
                does = next(each.value for each in line.value.keywords if each.arg == "does")
                found[path.stem] = re.findall(r"Opcode(?:\.|\[['\"])(\w+)", ast.unparse(does))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    return write_or_check(texts, "scripts/write_units.py", arguments)


if __name__ == "__main__":
    sys.exit(main())
