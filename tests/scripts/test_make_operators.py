"""The page of operators says what the registry says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import workbench as wb

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "make_operators.py"
PAGE = ROOT / "docs" / "operators.md"


def test_the_page_is_current():
    spec = importlib.util.spec_from_file_location("make_operators", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert PAGE.read_text(encoding="utf-8") == script.page(), "run: python scripts/make_operators.py"


def test_every_overload_on_it_has_the_route_of_its_section():
    sections = re.findall(r"^## (\w+)[^\n]*\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    routes = {
        "Templates": "template",
        "Builders": "builder",
        "Formulas": "automatic",
        "Imported": "automatic",
        "Views": "view",
    }
    seen: list[str] = []
    for title, body in sections:
        overloads = re.findall(r"`([\w.]+)`", body)
        seen += overloads
        assert {wb.ops.who(overload).route for overload in overloads} == {routes.get(title, "automatic")}  # type: ignore[union-attr]
    assert len(seen) == len(set(seen)) > 130
