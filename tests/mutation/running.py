"""Mutants run in a copy of the tree: which tests call a function, and whether one notices what was done to it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tests.mutation.mutate import Mutant
from tests.mutation.reaching import ROOT

BUDGET = 15.0
"""Seconds of tests that a mutant is run against first, as measured."""
ALL = 300.0
"""Seconds of tests that are tried in all on what those did not notice, unless it is known why they need not."""
ALIKE = 2
"""So many cases of one test function that call the same functions are run, the quickest ones."""
LIMIT = 100.0
"""Seconds after which the rest of a file of tests is left out when it is measured."""
PATIENCE = 4.0
"""A run that takes so many times as long as was measured, and a minute to start, hangs."""
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)
NOT_COPIED = (".venv", ".git", "__pycache__", ".pytest_cache", ".ruff_cache", ".hypothesis", "typings")

Reached: TypeAlias = dict[str, tuple[float, list[str]]]
"""Of each test that passes, how long it takes and the functions it calls, as `path:name`."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a mutant: the test that failed, `hangs`, or ''."""

    mutant: Mutant
    killed_by: str
    tests: int
    seconds: float

    @property
    def killed(self) -> bool:
        return bool(self.killed_by)


class Copy:
    """A copy of the tree that may be made wrong. The simulator in it runs as plain Python if `plain`; of the tests only
    those of the first run may notice if `first` (tests/tiers.py)."""

    def __init__(self, folder: Path, plain: bool, first: bool = False) -> None:
        self.folder, self.plain, self.first = folder / "tree", plain, first
        shutil.copytree(ROOT, self.folder, ignore=shutil.ignore_patterns(*NOT_COPIED), dirs_exist_ok=True)
        self.cache = folder / "cache"
        self._fails_anyway: dict[str, bool] = {}

    def measure(self, tests: Sequence[str]) -> Reached:
        """Runs these tests on the copy as it is, but for files that were measured in this folder and are unchanged.

        Tests that fail, or come late in a file that takes long, are not among what is found.
        """
        kept = self.folder.parent / f"reached{'-plain' * self.plain}{'-first' * self.first}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        digests = {path: hashlib.sha256((self.folder / path).read_bytes()).hexdigest() for path in self._files(tests)}
        new = [path for path, digest in digests.items() if known.get(path, [""])[0] != digest]
        for path in new:
            written = self.folder.parent / "measured.jsonl"
            written.write_text("")
            run = ["--run", "first"] if self.first else []
            self._pytest(["-p", "tests.mutation.reaching", *run, path], LIMIT, REACHING=str(written))
            measured = [json.loads(line) for line in written.read_text().splitlines()]
            known[path] = [digests[path], {test: [taken, called] for test, taken, called in measured}]
            kept.write_text(json.dumps(known))
        return {test: each for path in digests for test, each in known[path][1].items()}

    def _files(self, tests: Sequence[str]) -> list[str]:
        """The files of tests that were named, or lie in a folder that was."""
        found = [
            [self.folder / each] if each.endswith(".py") else (self.folder / each).rglob("test_*.py") for each in tests
        ]
        return sorted({path.relative_to(self.folder).as_posix() for paths in found for path in paths})

    def run(self, mutant: Mutant, reached: Reached, budgets: Sequence[float]) -> Outcome:
        """Runs the tests that see the function the mutant is in until one fails: of a budget, then of the next."""
        begin, tried, killed_by = time.monotonic(), list[str](), ""
        for budget in budgets:
            tests, expected = chosen(mutant, reached, budget)
            new = [test for test in tests if test not in tried]
            if new and not killed_by:
                killed_by = self._noticed(mutant, new, expected)
                tried += new
        return Outcome(mutant, killed_by, len(tried), time.monotonic() - begin)

    def _noticed(self, mutant: Mutant, tests: Sequence[str], expected: float) -> str:
        """The first of these tests that fails on the mutant alone; nothing if none does."""
        path = self.folder / mutant.path
        right = path.read_bytes()
        try:
            self._write(path, mutant.text.encode())
            code, output = self._pytest(["-x", *tests], 60 + PATIENCE * expected)
        finally:
            self._write(path, right)
        killed_by = "" if code == 0 else "hangs" if code is None else _first_failed(output)
        return "" if killed_by.startswith("tests/") and self._fails_without(killed_by) else killed_by

    def digest(self, mutant: Mutant, reached: Reached, budgets: Sequence[float]) -> str:
        """Of the tests that a mutant is run against, and all that stands in their files."""
        tests, _ = chosen(mutant, reached, budgets[-1])
        files = sorted({test.partition("::")[0] for test in tests})
        content = b"".join((self.folder / path).read_bytes() for path in files)
        return hashlib.sha256("\n".join(tests).encode() + content).hexdigest()

    def _fails_without(self, test: str) -> bool:
        """True if a test fails on the tree as it is: it would say nothing about a mutant."""
        if test not in self._fails_anyway:
            alone = [] if "::" in test else ["--collect-only"]  # a file that cannot be imported
            self._fails_anyway[test] = self._pytest([*alone, test], 300)[0] != 0
        return self._fails_anyway[test]

    def _write(self, path: Path, content: bytes) -> None:
        """Changes a file, and forgets what was compiled of it: Python looks at size and second only."""
        path.write_bytes(content)
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()

    def _pytest(self, arguments: Sequence[str], limit: float, **environment: str) -> tuple[int | None, str]:
        plugins = ["-p", "no:cacheprovider", "-p", "pytest_timeout"]  # others take longer to load than most tests
        command = [sys.executable, "-m", "pytest", "-q", *plugins, *arguments]
        environment |= {"PYTHONPATH": str(self.folder), "ATEN_WORKBENCH_CACHE": str(self.cache), "OMP_NUM_THREADS": "1"}
        environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        if self.plain:  # else each mutant of the simulator is compiled, which takes longer than most tests
            environment["NUMBA_DISABLE_JIT"] = "1"
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        return process.returncode, output


def chosen(mutant: Mutant, reached: Reached, budget: float = BUDGET) -> tuple[list[str], float]:
    """Quick tests that call the mutant's function, and how long they take; of a line in none, all of the file.

    The quickest of each file of tests come first, then the second ones. What stands inside another function is seen by
    tests that call either: a default, or a function of one line.
    """
    for name in _seen_as(mutant):
        seeing = sorted((taken, test, called) for test, (taken, called) in reached.items() if _calls(called, name))
        if seeing:
            break
    cases, files, ranked = Counter[tuple[str, ...]](), Counter[str](), list[tuple[int, float, str]]()
    for taken, test, called in seeing:
        file, case = test.partition("::")[0], (test.partition("[")[0], *called)
        cases[case] += 1
        if cases[case] <= ALIKE:
            files[file] += 1
            ranked.append((files[file], taken, test))
    tests, spent = list[str](), 0.0
    for _, taken, test in sorted(ranked):
        if not tests or spent + taken <= budget:
            tests.append(test)
            spent += taken
    return tests, spent


def _seen_as(mutant: Mutant) -> list[str]:
    """The mutant's function, then the ones it stands in, then the file."""
    name, names = mutant.function, list[str]()
    while name:
        names.append(f"{mutant.path}:{name}")
        name = name.rpartition(".")[0].removesuffix(".<locals>")
    return [*names, f"{mutant.path}:"]


def _calls(called: Sequence[str], name: str) -> bool:
    return any(each == name or (name.endswith(":") and each.startswith(name)) for each in called)


def _first_failed(output: str) -> str:
    found = FAILED.search(output)
    return found[1] if found else f"a crash: {output[-200:]}"
