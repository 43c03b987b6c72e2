"""The writing around the code: each rule of the check can be broken, and the tree keeps them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import check_writing
from scripts.check_writing import MOST_CHANGELOG_LINES, MOST_OPENINGS, docstrings, titles, violations, wrong_title

ROOT = Path(__file__).resolve().parents[2]


def test_the_tree_keeps_the_rules() -> None:
    assert [*violations(ROOT)] == []
    assert set(MOST_OPENINGS) == {"benchmarks", "scripts", "simulator", "templates", "tests", "workbench"}
    assert MOST_OPENINGS["benchmarks"] == MOST_OPENINGS["scripts"] == MOST_OPENINGS["simulator"] == 0


@pytest.mark.parametrize(
    "title",
    [
        "Add the release",
        "Pass the memory to the trace",
        "Re-read the file",
        "Make a hardware unit one file: a script numbers it and its opcodes",
        "Say " + "y" * 68,
    ],
)
def test_an_imperative_of_72_letters_is_a_title(title: str) -> None:
    assert wrong_title(title) == ""


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("Say " + "y" * 69, "it has 73 letters; expected 72 at most"),
        ("Add the release.", "ends with a full stop"),
        ("Added the release", "begins with 'Added'; expected the imperative"),
        ("Adding the release", "begins with 'Adding'; expected the imperative"),
        ("Adds the release", "begins with 'Adds'; expected the imperative"),
        ("add the release", "begins with 'add'; expected a verb"),
        ("The release", "begins with 'The'; expected a verb"),
        ("Docs: the release", "begins with 'Docs:'; expected a verb"),
        ("WIP", "begins with 'WIP'; expected a verb"),
    ],
)
def test_another_title_is_refused_with_the_reason(title: str, told: str) -> None:
    assert told in wrong_title(title)


def test_titles_are_those_since_a_commit_where_there_is_a_history(tmp_path: Path) -> None:
    assert titles(tmp_path) is None

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *who, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "--quiet")
    for title in ("Whatever there was", "Add one", "Added two"):
        git("commit", "--quiet", "--allow-empty", "--message", title)
    first = git("rev-list", "--max-parents=0", "HEAD")
    found = titles(tmp_path, first)
    assert found is not None and [*found.values()] == ["Added two", "Add one"]
    assert titles(tmp_path, "0" * 40) is None
    inner = tmp_path / "unpacked"
    inner.mkdir()
    assert titles(inner, first) is None


def test_the_summary_says_where_there_is_no_history(tmp_path: Path) -> None:
    assert check_writing.summary(tmp_path).startswith("no history of commits here, 0 docstrings")


DOCSTRINGS = '''"""What opens a module."""

LIMIT = 3
"""How many there are."""


class Kind:
    """Made of two."""

    whole: bool
    """Whether all of it is there."""
    part: int
    """Whether a part of it is there."""

    def first(self) -> bool:
        """Whether it is the first."""

    def place(self) -> int:
        """Where it lies."""

    def other(self) -> int:
        """Returns whatever is told."""
        print("""What is printed""")
'''


def test_a_docstring_that_names_nothing_is_found(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "one.py").write_text(DOCSTRINGS, encoding="utf-8")
    found = docstrings(tmp_path, ["templates", "workbench"])
    words = ["1: What", "4: How", "8: Made", "13: Whether", "19: Where"]
    assert found["workbench"] == [] and sorted(found["templates"]) == sorted(
        f"templates/one.py:{each}" for each in words
    )


def test_more_of_them_than_the_bound_and_a_long_changelog_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "one.py").write_text(DOCSTRINGS, encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text("a line\n" * (MOST_CHANGELOG_LINES + 1), encoding="utf-8")
    monkeypatch.setattr(check_writing, "MOST_OPENINGS", {"templates": 4})
    long, many = violations(tmp_path)
    assert long.startswith(f"CHANGELOG.md: {MOST_CHANGELOG_LINES + 1} lines; expected {MOST_CHANGELOG_LINES} at most")
    assert many.startswith("templates: 5 docstrings begin with a word that names nothing (")
    monkeypatch.setattr(check_writing, "MOST_OPENINGS", {"templates": 6})
    assert "lower MOST_OPENINGS of scripts/check_writing.py to {'templates': 5}" in check_writing.summary(tmp_path)
