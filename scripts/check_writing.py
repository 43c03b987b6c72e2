"""Checks the writing around the code: the length of the changelog, titles of commits, and first words of docstrings.

`scripts/check_house.py` calls it in `make check`. Titles are checked where git has the history from `FIRST_CHECKED` on.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

MOST_CHANGELOG_LINES, MOST_TITLE_LETTERS = 80, 72
FIRST_CHECKED = "376a030d05951486dd498b244964b168168b95db"
"""The last commit whose title is not checked."""

OPENINGS = frozenset({"what", "how", "that", "where", "whether", "rarer", "anew", "told", "asked", "made", "given"})
"""First words of a docstring that name nothing. `Whether` may open the docstring of a bool."""
MOST_OPENINGS = {"benchmarks": 0, "scripts": 0, "simulator": 0, "templates": 0, "tests": 0, "workbench": 0}
"""The docstrings with such an opening, by folder, that there may be. A bound may only go down."""

ENDINGS = ("ed", "ing", "s")
VERBS = re.compile(
    "Access|Address|Assess|Bring|Bypass|Compress|Cross|Discuss|Dismiss|Embed|Express|Feed|Focus|Guess|Miss|Need|Pass|"
    "Press|Process|Seed|Speed|Suppress"
)
"""Imperative verbs with one of the endings that other verbs have in "Added", "Adding" and "Adds"."""
NO_VERBS = re.compile(
    "A|All|An|And|As|At|Both|Each|Every|How|In|It|More|New|No|Not|Now|On|One|Only|Other|Our|Plain|Some|Such|That|The|"
    "Their|There|These|This|Those|To|Two|What|When|Where|Whether|Which|Who|Why|With"
)
"""First words of titles that are no verb."""


def wrong_title(title: str) -> str:
    """Says what is wrong with the title of a commit; '' if nothing is."""
    first = title.split(" ")[0]
    if len(title) > MOST_TITLE_LETTERS:
        return f"it has {len(title)} letters; expected {MOST_TITLE_LETTERS} at most"
    if title.endswith("."):
        return "it ends with a full stop; expected none"
    if not re.fullmatch("[A-Z][a-z]+(-[a-z]+)?", first) or NO_VERBS.fullmatch(first):
        return f"it begins with {first!r}; expected a verb, as in 'Add ...'"
    if first.endswith(ENDINGS) and not VERBS.fullmatch(first):
        return f"it begins with {first!r}; expected the imperative, as 'Add' in place of 'Added', 'Adding' and 'Adds'"
    return ""


def titles(root: Path, since: str = FIRST_CHECKED) -> dict[str, str] | None:
    """Short hash -> title of each commit after `since`, merges left out; None where git has no such history."""
    known = _git(root, "merge-base", "--is-ancestor", since, "HEAD")
    listed = _git(root, "log", "--no-merges", "--format=%h %s", f"{since}..HEAD") if known is not None else None
    return None if listed is None else dict(line.split(" ", 1) for line in listed.splitlines())


def _git(root: Path, *arguments: str) -> str | None:
    """The output of git for a repository with this very root; None where git fails or is not installed."""
    if not (root / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=root, capture_output=True, text=True, encoding="utf-8", check=False
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


@cache  # the house asks for violations, then for a summary
def unclear_docstrings(source: str) -> tuple[tuple[int, str], ...]:
    """Line and first word of each docstring with one of the `OPENINGS`, those of attributes included."""
    found = list[tuple[int, str]]()
    for owner in ast.walk(ast.parse(source)):
        body = getattr(owner, "body", None)
        if not isinstance(body, list):
            continue
        for before, node in zip([owner, *body], body, strict=False):
            text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
            first = re.match(r"\w+", text.strip()) if isinstance(text, str) else None
            if first and first[0].lower() in OPENINGS and not (first[0] == "Whether" and _is_bool(before)):
                found.append((node.lineno, first[0]))
    return tuple(found)


def _is_bool(node: ast.AST) -> bool:
    """True for a function that returns a bool, or bools, and for an attribute of such a type."""
    kind = getattr(node, "returns", None) or getattr(node, "annotation", None)
    return kind is not None and re.search(r"\b(bool|bool_|Mask|TypeGuard)\b", ast.unparse(kind)) is not None


def docstrings(root: Path, folders: Iterable[str]) -> dict[str, list[str]]:
    """Folder -> `file:line: first word` of its docstrings with one of the `OPENINGS`."""
    return {
        folder: [
            f"{path.relative_to(root).as_posix()}:{line}: {word}"
            for path in sorted((root / folder).rglob("*.py"))
            for line, word in unclear_docstrings(path.read_text(encoding="utf-8"))
        ]
        for folder in folders
    }


def violations(root: Path) -> Iterator[str]:
    """A sentence for each rule of this file that the tree breaks."""
    lines = len((root / "CHANGELOG.md").read_text(encoding="utf-8").splitlines())
    if lines > MOST_CHANGELOG_LINES:
        yield f"CHANGELOG.md: {lines} lines; expected {MOST_CHANGELOG_LINES} at most: say what a user notices, briefly"
    for number, title in (titles(root) or {}).items():
        if wrong := wrong_title(title):
            yield f"commit {number}, {title!r}: {wrong}"
    for folder, places in docstrings(root, MOST_OPENINGS).items():
        if len(places) > MOST_OPENINGS[folder]:
            words = ", ".join(f"{word} {count}" for word, count in Counter(each.split()[-1] for each in places).items())
            yield (
                f"{folder}: {len(places)} docstrings begin with a word that names nothing ({words}); expected "
                f"{MOST_OPENINGS[folder]} at most. `python scripts/check_writing.py` lists them"
            )


def summary(root: Path) -> str:
    """Says the counts, and which bounds are too high by now."""
    found, told = titles(root), {folder: len(places) for folder, places in docstrings(root, MOST_OPENINGS).items()}
    checked = "no history of commits here" if found is None else f"{len(found)} titles of commits"
    lower = {folder: count for folder, count in told.items() if count < MOST_OPENINGS[folder]}
    hint = f"; lower MOST_OPENINGS of scripts/check_writing.py to {lower}" if lower else ""
    return f"{checked}, {sum(told.values())} docstrings whose first word names nothing{hint}"


if __name__ == "__main__":
    here = Path(__file__).resolve().parent.parent
    print(*(place for places in docstrings(here, MOST_OPENINGS).values() for place in places), sep="\n")
