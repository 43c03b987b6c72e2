"""python -m tests.crafted.traced_paths FOLDER N: which paths are opened for crafted files, as strace lists them.

One process shows, changes, tries and tunes harmless files first, then N crafted ones. What is opened for these alone
must lie among the programs, in the caches or in the folders that they were given.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.crafted.craft import crafted_texts
from tests.crafted.judge import Opener, originals

NAMES = ("perceptron", "softmax")
_PATH = re.compile(r'^\d+\s+\w+\((?:AT_FDCWD, |\d+(?:<[^>]*>)?, )?"((?:[^"\\]|\\.)*)"')
_OWN = re.compile(
    r"/(proc|sys|usr/share)/|/dev/(null|urandom|shm)|/tmp(/(tmp)?[a-z0-9_]{8}(/.*)?)?$|/tmp/(matplotlib-|torchinductor_)\w*"
    r"|/etc/(localtime|ld\.so)|\.?$|\w+\.py$"
)
"""Paths that a process opens whatever it works on."""


def main() -> int:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    whole = originals(folder, NAMES)
    harmless = [path.rename(folder / f"harmless-{number}.journey") for number, path in enumerate(whole)]
    crafted = list[Path]()
    for number in range(count):
        made = folder / f"crafted-{number}.journey"
        made.write_bytes(crafted_texts(harmless[number % len(harmless)].read_bytes(), 70_000 + number)[1])
        crafted.append(made)
    log = folder / "strace.log"
    with Opener(
        harmless, acts=True, under=("strace", "-f", "-s", "4096", "-e", "trace=%file", "-o", str(log))
    ) as opener:
        outcomes = [opener.open(path, 3000)["outcome"] for path in (*harmless, *crafted)]
    if wrong := {*outcomes} - {"shown", "told"}:
        print(f"some were {', '.join(sorted(wrong))}")
        return 1
    seen = [*paths_of(log)]
    first = seen.index(str(crafted[0]))
    more = set(seen[first:]) - set(seen[:first])
    strange = sorted(path for path in more if not _is_own(path, folder))
    for path in strange:
        print(f"opened for a crafted file alone: {path}")
    told = "none of the file's choice" if not strange else f"{len(strange)} of the file's choice"
    print(f"{count} crafted files, {len(more):,} paths more than those of harmless ones: {told}")
    return int(bool(strange))


def paths_of(log: Path) -> Iterator[str]:
    """The path of each call, in the order in which they were made."""
    for line in log.read_text("utf-8", "replace").splitlines():
        if found := _PATH.match(line):
            yield os.path.normpath(found[1])  # a way up leads out of a folder


def _is_own(path: str, folder: Path) -> bool:
    """True for a path among the programs, in the caches or in the given folders."""
    cache = os.environ.get("ATEN_WORKBENCH_CACHE", "") or str(Path.home() / ".cache")
    roots = [sys.prefix, sys.base_prefix, str(Path(__file__).parents[2]), str(folder), cache, "/usr/lib", "/lib"]
    real = {os.path.realpath(root) for root in roots}
    inside = any(
        path == root or f"{root}{os.sep}".startswith(f"{path}{os.sep}") or path.startswith(f"{root}{os.sep}")
        for root in {*roots, *real}
    )
    return inside or _OWN.match(path) is not None


if __name__ == "__main__":
    sys.exit(main())
