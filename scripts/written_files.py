"""The command line of scripts that write files of the tree: without `--check` they write, with it they fail."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

Texts: TypeAlias = Callable[[Path], Iterator[tuple[Path, str]]]
"""Each file of a tree that a script writes, with the text that it should have."""

ROOT = Path(__file__).resolve().parents[1]


def write_or_check(texts: Texts, script: str, arguments: Sequence[str] | None = None) -> int:
    """Writes the files that differ, or names them: then the exit status is 1."""
    parser = argparse.ArgumentParser(prog=script)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where something differs")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree (default: this one)")
    given = parser.parse_args(arguments)
    stale = [
        (path, text)
        for path, text in texts(given.root)
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if not given.check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(given.root)}: {f'differs; run {script}' if given.check else 'written'}")
    return int(given.check and bool(stale))
