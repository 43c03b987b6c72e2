"""The changelog: its form, and its figures, each of which stands in a page that its line links to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
LINES = re.findall(r"^- (.+)$", TEXT, re.M)
FIGURE = re.compile(r"(?<![\w.-])\d[\d,.]*\d%?|(?<![\w.-])\d%?")
NAMED = ("Python 3.11", "PyTorch 2.13")
"""Versions of what is needed, which pyproject.toml has."""


def unfounded(line: str, root: Path) -> list[str]:
    """The figures of a line that stand in none of the pages to which it links, or in pages without a command."""
    pages = [(root / link).read_text(encoding="utf-8") for link in re.findall(r"\]\((docs/[\w/-]+\.md)", line)]
    measured = [page for page in pages if re.search(r"`(?:python|make) |scripts/\w+\.py", page)]
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)
    for name in NAMED:
        plain = plain.replace(name, "")
    return [each for each in FIGURE.findall(plain) if not any(_has(page, each) for page in measured)]


def _has(page: str, figure: str) -> bool:
    return re.search(rf"(?<![\w.,-]){re.escape(figure)}(?![\d%])", page) is not None


@pytest.mark.parametrize("line", LINES, ids=[line[:30] for line in LINES])
def test_a_figure_stands_in_a_page_with_its_command(line: str) -> None:
    assert unfounded(line, ROOT) == []


def test_a_figure_that_no_page_has_is_found(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "speed.md").write_text("`make speed` says 1,250 and 6.0%, for tpu-v3\n", encoding="utf-8")
    (tmp_path / "docs" / "told.md").write_text("It is 70.\n", encoding="utf-8")
    assert unfounded("[1,250 runs](docs/speed.md) of x86-64 with an error of 6.0% in `f(3)`", tmp_path) == []
    assert unfounded("[125 runs](docs/speed.md) with 0% and 16.0%, 3 of them", tmp_path) == ["125", "0%", "16.0%", "3"]
    assert unfounded("[70 of them](docs/told.md)", tmp_path) == unfounded("70 of them", tmp_path) == ["70"]


def test_sections_are_versions_with_a_day_and_areas() -> None:
    sections = re.findall(r"^## (.+)$", TEXT, re.M)
    assert sections and len(LINES) > 30
    assert [
        each for each in sections if not re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d|\[Unreleased\]", each)
    ] == []
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", TEXT, re.M)) <= kinds
    assert [line for line in LINES if not line.endswith(".")] == []
