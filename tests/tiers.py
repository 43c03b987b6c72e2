"""Two runs of the tests: `make test` is the first, `make test-all` both, `make test-all REST=1` the second alone.

A test is in the first run unless `@pytest.mark.test_all` says that what it notices there is not worth its time. Of a
test with many cases, `@pytest.mark.test_all(but=2)` leaves two in the first run; which ones follows from their names
alone, so they are the same everywhere. Every file of tests has at least one test in the first run: `without_first`
finds those that have none. `python -m tests.tiers` writes down what lies where, in `tiers.md`.
"""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tests.sweeps import left_out

FIRST, REST = "first", "rest"
RUNS = (FIRST, REST)
LEFT_WHOLE = {
    "tests/browser/test_closing.py": "a minute of one lab; tests/jupyter/test_base.py has its subject",
    "tests/browser/test_explaining.py": "JupyterLab around tests/jupyter/test_explaining_page.py",
    "tests/browser/test_knobs.py": "JupyterLab around tests/jupyter/test_knobs_page.py",
    "tests/browser/test_memory.py": "JupyterLab around tests/jupyter/test_memory_page.py",
    "tests/stress/test_stress.py": "a minute long; tests/environment/test_threads.py has its subject",
}
"""Files without a test in the first run, and why."""
WRITTEN = Path(__file__).with_name("tiers.md")


def rest_of(items: Sequence[pytest.Item]) -> set[str]:
    """The ids of the tests that only `make test-all` runs."""
    cases: dict[str, list[str]] = {}
    kept: dict[str, int] = {}
    for item in items:
        if mark := item.get_closest_marker("test_all"):
            test = item.nodeid.partition("[")[0]
            cases.setdefault(test, []).append(item.nodeid)
            kept[test] = mark.kwargs.get("but", 0)
    return {case for test, names in cases.items() for case in sorted(names, key=_drawn)[kept[test] :]}


def _drawn(name: str) -> tuple[int, str]:
    return zlib.crc32(name.encode()), name


def without_first(items: Iterable[pytest.Item], rest: set[str]) -> list[str]:
    """The files of tests that the first run leaves out whole, and that are not known to be."""
    files = {item.nodeid.partition("::")[0]: False for item in items}
    for item in items:
        files[item.nodeid.partition("::")[0]] |= item.nodeid not in rest
    return sorted(file for file, runs in files.items() if not runs and file not in LEFT_WHOLE)


class _Collected:
    """A plugin of pytest that keeps the tests that were found, before any is left out."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = [*items]


def table(items: Sequence[pytest.Item]) -> str:
    """Markdown: of each file of tests, the cases of the first run, of the rest, and those of `make sweeps` alone."""
    swept = {item.nodeid for item in left_out(items)}
    rest = rest_of([item for item in items if item.nodeid not in swept])
    counts: dict[str, Counter[str]] = {}
    for item in items:
        where = "sweeps" if item.nodeid in swept else REST if item.nodeid in rest else FIRST
        counts.setdefault(item.nodeid.partition("::")[0], Counter())[where] += 1
    total = sum(counts.values(), Counter[str]())
    lines = ["| file | `make test` | `make test-all REST=1` | `make sweeps` alone |", "|---|---:|---:|---:|"]
    lines += [
        f"| {file} | {count[FIRST]:,} | {count[REST]:,} | {count['sweeps']:,} |"
        for file, count in (("all", total), *sorted(counts.items()))
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    collected = _Collected()
    status = pytest.main(["--collect-only", "-qqq", "--disable-warnings", "tests"], plugins=[collected])
    if status == pytest.ExitCode.OK:
        WRITTEN.write_text(
            f"# Which tests run where\n\nWritten by `python -m tests.tiers`.\n\n{table(collected.items)}"
        )
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
