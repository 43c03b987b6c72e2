"""Fixtures and settings of all tests.

Kernels that tests schedule and compile are kept in a folder of the user's cache that only tests use, under keys that
hold the contents of all sources: each kernel is made once, and the next run reads those that no change touched. Tests
of the cache, and those that count what is made, have their own or none.

Each test draws its random numbers from its own name: alone or among others, here or elsewhere, they are the same. Other
draws are made by the sweeps (`make fuzz`, `make right-results`).

Where they run side by side, each process computes on one thread: several that all want every core get in one another's
way. PyTorch and LLVM read this when they are loaded, so it is said before any test module is.

Processes that tests start keep Python's bytecode, as they do for a user, even where the environment says otherwise:
without it each compiles hundreds of modules anew.

Garbage is looked for seldom: with all that PyTorch and MLIR keep, each search takes long and finds little. Tests of
what is let go ask for a search themselves.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import zlib
from collections import Counter
from collections.abc import Generator

import pytest

from simulator.files.cache_folder import user_cache
from tests import tiers
from tests.browser import chromium
from tests.sweeps import left_out

_MANY_FILES = 50


if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have that of the process that starts them
    os.environ["ATEN_WORKBENCH_KERNEL_CACHE"] = str(user_cache() / "tests")
else:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

gc.set_threshold(100_000, 20, 20)


def pytest_collection_finish() -> None:
    """Excludes the objects of imported modules from garbage collection: they live to the end."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _numbers_of_its_own(request: pytest.FixtureRequest) -> None:
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    if "torch" in sys.modules:  # some tests look at what happens without it
        sys.modules["torch"].manual_seed(seed)


@pytest.fixture(autouse=True)
def _in_the_folder_it_began_in() -> Generator[None]:
    """Later tests in the process read files of the repository, and start processes that do."""
    before = os.getcwd()
    yield
    after = os.getcwd()
    if after != before:
        os.chdir(before)
        pytest.fail(f"the test has left the process in {after}", pytrace=False)


@pytest.fixture
def whole_sweep(request: pytest.FixtureRequest) -> bool:
    """For tests that are sweeps in themselves: whether to go through all."""
    return bool(request.config.getoption("--whole"))


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count what is made, or change who makes it."""
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "off")


@pytest.fixture
def own_scope() -> Generator[None]:
    """For tests that register something of their own: afterwards it is gone."""
    from workbench import ops

    with ops.scope():
        yield


@pytest.fixture
def own_rules() -> Generator[None]:
    """For tests that add rules to the shipped ones: afterwards those are gone."""
    from workbench import ops
    from workbench.explaining.findings import rule_search

    rule_search.rules()  # the shipped ones are there
    with ops.scope():
        yield


@pytest.fixture
def fresh_dynamo() -> Generator[None]:
    """For tests that compile with Dynamo: it knows none of their functions before, and none afterwards."""
    import torch

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def pytest_configure(config: pytest.Config) -> None:
    sweep = "sweep(one_in=1, pairs=True): combinations, of which a part runs unless --whole is given (sweeps.py)"
    config.addinivalue_line("markers", sweep)
    config.addinivalue_line("markers", "test_all(but=0): `make test` runs none, or so many of its cases (tiers.py)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what needs a browser where there is none; runs a part of each sweep, unless all is asked for, or single
    combinations are; runs the tests of the asked run alone."""
    if chromium.skips():
        for item in items:
            if any(fixture in chromium.FIXTURES for fixture in getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.skip(reason=chromium.MISSING))
    if any("[" in argument for argument in config.args):
        return
    if not config.getoption("--whole"):
        _leave_out(config, items, {item.nodeid for item in left_out(items)})
    if asked := config.getoption("--run"):
        rest = tiers.rest_of(items)
        if missing := tiers.without_first(items, rest):
            raise pytest.UsageError(f"no test of these files is in the first run (tests/tiers.py): {missing}")
        other = rest if asked == tiers.FIRST else {item.nodeid for item in items} - rest
        _leave_out(config, items, other)


def _leave_out(config: pytest.Config, items: list[pytest.Item], ids: set[str]) -> None:
    if left := [item for item in items if item.nodeid in ids]:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item.nodeid not in ids]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--whole", action="store_true", help="run all combinations of sweeps: tests/sweeps.py")
    parser.addoption(
        "--run", choices=tiers.RUNS, help="the run of `make test`, or the rest of `make test-all`: tests/tiers.py"
    )
    told = "write tests/golden/programs anew with today's cycles, bytes and tiles"
    parser.addoption("--rewrite-golden", action="store_true", help=told)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a run of many tests: the files that took most of its time, of which to make less first."""
    seconds, reports = Counter[str](), terminalreporter.getreports("")
    reports += terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    for report in reports:
        seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) < _MANY_FILES:
        return
    total = seconds.total()
    terminalreporter.section(f"files that took longest, of {len(seconds)} and {total:,.0f} s of all processes together")
    for file, taken in seconds.most_common(25):
        terminalreporter.write_line(f"{taken:7.1f} s {taken / total:6.1%}  {file}")
