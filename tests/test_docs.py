"""The how-to pages tell the truth: every example runs as printed, and prints what the page says."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from pathlib import Path

import pytest

import workbench as wb

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "adding-an-op.md"
EXAMPLES = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.M | re.S
)


def test_each_way_has_an_example():
    titles = re.findall(r"^## (.+)$", PAGE.read_text(), re.M)
    assert [title for title, _, _ in EXAMPLES] == titles and len(titles) == 5
    assert PAGE.read_text().count("```python") == len(EXAMPLES)


@pytest.mark.parametrize(("title", "source", "shown"), EXAMPLES, ids=[title for title, _, _ in EXAMPLES])
def test_the_example_prints_what_the_page_says(
    title: str, source: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    module = "example_" + title.lower().split(":")[0].replace(" ", "_")
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    printed = io.StringIO()
    with wb.ops.scope(), contextlib.redirect_stdout(printed):
        importlib.import_module(module)
    assert printed.getvalue() == shown


@pytest.mark.parametrize("page", ["docs/adding-an-op.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str):
    file = ROOT / page
    text = file.read_text()
    anchors = {
        re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^## (.+)$", text, re.M)
    }
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    for target in targets:
        known = target[1:] in anchors if target.startswith("#") else (file.parent / target).exists()
        assert known or target.startswith("http"), target
