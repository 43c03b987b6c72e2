"""The list of calls in docs/design/the-way-of-an-op.md: made from the source, and wrong as soon as that moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts import way_of_an_op


def test_the_page_has_the_calls_as_they_stand():
    path = way_of_an_op.ROOT / way_of_an_op.PAGE
    text = path.read_text(encoding="utf-8")
    assert way_of_an_op.page(text) == text, "lines moved: run scripts/way_of_an_op.py"
    assert len(way_of_an_op.files()) <= way_of_an_op.MOST_FILES


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"written": "wish"}, "grouped does not call wish"),
        ({"function": "nowhere"}, "nowhere does not call lower"),
        ({"to": ("workbench/lowering/lower.py", "raised")}, "has no function raised"),
        ({"to": ("workbench/rendering/render.py", "render")}, "lower leads to workbench/lowering/lower.py, not to"),
    ],
    ids=["other name", "no such function", "no such target", "another file"],
)
def test_a_call_that_is_not_in_the_source_is_told(monkeypatch, changed: dict[str, object], said: str):
    (call,) = [each for each in way_of_an_op.WAY if each.written == "lower"]
    monkeypatch.setattr(way_of_an_op, "WAY", (replace(call, **changed),))
    with pytest.raises(way_of_an_op.Moved, match=said):
        way_of_an_op.table()


def test_a_line_that_moves_makes_another_page(tmp_path: Path, monkeypatch):
    text = (way_of_an_op.ROOT / way_of_an_op.PAGE).read_text(encoding="utf-8")
    for file in way_of_an_op.files():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((way_of_an_op.ROOT / file).read_text(encoding="utf-8"), encoding="utf-8")
    loop = tmp_path / "simulator/engine/event_loop.py"
    loop.write_text(f"\n{loop.read_text(encoding='utf-8')}", encoding="utf-8")
    monkeypatch.setattr(way_of_an_op, "ROOT", tmp_path)
    assert way_of_an_op.page(text) != text
