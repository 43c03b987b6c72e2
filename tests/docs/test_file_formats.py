"""The page of file formats lists every format and version in the code, and those of the recorded journeys."""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "file-formats.md"
ROW = re.compile(r"^\|[^|]+\|[^|]+\| (?:`([^`]+)`)? ?\| (\d+) \| `([^`]+)` \|$", re.M)
NAMES = {"FORMAT", "VERSION", "_VERSION"}


def listed() -> dict[str, tuple[str, int]]:
    """File of code -> format and version, as the page has them."""
    return {code: (format, int(version)) for format, version, code in ROW.findall(PAGE.read_text(encoding="utf-8"))}


def constants(source: str) -> dict[str, object]:
    """The literals that a module gives the names of formats and versions."""
    found = dict[str, object]()
    for node in ast.parse(source).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and name.id in NAMES and isinstance(value, ast.Constant):
                found[name.id.lstrip("_")] = value.value
    return found


def test_the_page_lists_the_formats_and_versions_of_the_code() -> None:
    found = dict[str, tuple[object, object]]()
    for folder in ("simulator", "templates", "workbench"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            told = constants(path.read_text(encoding="utf-8"))
            if isinstance(told.get("VERSION"), int):
                found[path.relative_to(ROOT).as_posix()] = told.get("FORMAT", ""), told["VERSION"]
    assert found == listed() and len(found) > 8


def test_a_constant_is_found_in_each_form() -> None:
    source = 'FORMAT, VERSION = "a", 3\n_TABLE, _VERSION = "b", 4\nfrom x import VERSION\n'
    assert constants(source) == {"FORMAT": "a", "VERSION": 4}
    assert constants("VERSION: Final = 2\nversion = 3") == {"VERSION": 2}


def test_recorded_journeys_say_the_formats_of_the_page() -> None:
    rows = dict(listed().values())
    for path in sorted((ROOT / "notebooks" / "recorded").glob("*.journey")):
        with zipfile.ZipFile(path) as file:
            heads = [json.loads(file.read("journey.json"))]
            for name in ("trace.npz", "programs/0.npz"):
                with np.load(io.BytesIO(file.read(name))) as arrays:
                    heads.append(json.loads(arrays["header"].tobytes()))
        for head in heads:
            assert rows[head["format"]] == head["version"], path
