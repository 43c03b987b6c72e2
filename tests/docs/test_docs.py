"""The how-to pages tell the truth: every example runs as printed, and prints what the page says."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
from pathlib import Path

import pytest

import workbench as wb
from tests.breadth.odd_programs import PROGRAMS as ODD_PROGRAMS
from tests.sessions import own_session

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "docs" / f"adding-{what}.md" for what in ("an-op", "a-machine", "a-pass", "a-pattern", "a-view", "a-finding")
]
PAGES += [ROOT / "docs" / f"{page}.md" for page in ("differences", "scratchpad-and-tiles", "comparing", "the-lab")]
PAGES += [
    ROOT / "docs" / f"{page}.md"
    for page in ("timeline", "knobs", "tuning", "magics", "looking-closer", "sharing", "fusion", "training", "models")
]
FAILURES = ROOT / "docs" / "failures.md"
LINKED = [*PAGES, FAILURES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))]
LINKED += [ROOT / "docs" / f"{page}.md" for page in ("operators", "checking", "file-formats", "releasing")]
DESIGN = [ROOT / "docs" / "design.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
LINKED += DESIGN

_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.M | re.S)
_EXAMPLE = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.S)
_FILE = re.compile(r"```toml\n(# (\S+)\n.*?)```", re.S)


def examples() -> list[tuple[str, str, str]]:
    """Page and title, source, and what it prints."""
    return [
        (f"{page.stem}: {title}", source, shown)
        for page in PAGES
        for title, body in _SECTION.findall(page.read_text())
        for source, shown in _EXAMPLE.findall(body)
    ]


def test_every_example_is_found():
    counts = {page.stem: sum(name.startswith(page.stem) for name, _, _ in examples()) for page in PAGES}
    assert counts == {page.stem: page.read_text().count("```python") for page in PAGES}
    assert counts == {
        "adding-an-op": 5,
        "adding-a-machine": 10,
        "adding-a-pass": 3,
        "adding-a-pattern": 3,
        "adding-a-view": 2,
        "adding-a-finding": 3,
        "differences": 1,
        "scratchpad-and-tiles": 5,
        "comparing": 3,
        "the-lab": 2,
        "timeline": 1,
        "knobs": 5,
        "magics": 2,
        "looking-closer": 3,
        "sharing": 2,
        "fusion": 5,
        "tuning": 4,
        "training": 2,
        "models": 2,
    }


@pytest.mark.test_all
@pytest.mark.parametrize(("name", "source", "shown"), examples(), ids=[name for name, _, _ in examples()])
def test_the_example_prints_what_the_page_says(
    name: str, source: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page, _, title = name.partition(": ")
    for text, file in _FILE.findall((ROOT / "docs" / f"{page}.md").read_text()):
        (tmp_path / file).write_text(text)
    module = "example_" + re.sub(r"\W+", "_", f"{page} {title.split(':')[0]}".lower())
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with own_session(tmp_path / "ipython"), wb.ops.scope(), contextlib.redirect_stdout(printed):
        importlib.import_module(module)
    assert printed.getvalue() == shown


@pytest.mark.parametrize("file", LINKED, ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path):
    targets = re.findall(r"\]\(([^)]+)\)", file.read_text())
    assert targets or file.name not in ("adding-an-op.md", "CONTRIBUTING.md")
    for target in (each for each in targets if not each.startswith("http")):
        name, _, anchor = target.partition("#")
        page = file.parent / name if name else file
        assert page.exists() and (not anchor or anchor in anchors(page)), target


def anchors(page: Path) -> set[str]:
    """The anchors of a page's sections."""
    titles = re.findall(r"^##+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_design_has_short_pages_and_an_index_of_them():
    index = DESIGN[0].read_text()
    assert len(DESIGN) > 10 and all(f"](design/{page.name})" in index for page in DESIGN[1:])
    assert {
        page.name: len(page.read_text().splitlines()) for page in DESIGN if page.read_text().count("\n") >= 200
    } == {}


@pytest.mark.parametrize("page", DESIGN[1:], ids=lambda page: page.stem)
def test_files_that_the_design_names_are_there(page: Path):
    roots = (ROOT, ROOT / "workbench", ROOT / "simulator")
    named = re.findall(r"`([\w/]+\.(?:py|md|csv))`", page.read_text())
    assert [each for each in named if not any((root / each).exists() for root in roots)] == []


def test_every_test_that_holds_a_class_of_failure_exists():
    rows = re.findall(r"^\| (?!class |---)([^|]+)\|[^|]+\|([^|]+)\|[^|]+\|$", FAILURES.read_text(), re.M)
    assert len(rows) > 30
    for what, held in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", held)
        assert named or "make " in held or held.strip().startswith("the same"), what
        for file, test in named:
            assert re.search(rf"^def {test}\b", (ROOT / file).read_text(), re.M), f"{file}::{test}"
    kinds = [kind for _, held in rows for kind in re.findall(r'"([^"]+)"', held)]
    assert sorted(kinds) == sorted(set(kinds) & set(ODD_PROGRAMS))


def test_notebooks_keep_no_state_of_widgets():
    """A notebook that is opened would show widgets as they were when it was written, in the style sheets of then."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        assert sorted(json.loads(path.read_text(encoding="utf-8"))["metadata"]) == ["kernelspec", "language_info"], path
