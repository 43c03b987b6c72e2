"""Two runs of the tests: together they are all, and the cases that stay in the first are the same everywhere."""

from __future__ import annotations

import pytest

pytest_plugins = "pytester"

CODE = """
import pytest

def test_first(): pass

@pytest.mark.test_all
def test_long(): pass

@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("n", range(9))
def test_cases(n): pass
"""
CONFTEST = """
from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_configure
"""


@pytest.fixture
def collected(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    return pytester


def ran(pytester: pytest.Pytester, *options: str) -> list[str]:
    result = pytester.runpytest_inprocess("--collect-only", "-q", *options)
    return [line for line in result.outlines if "::" in line]


def test_the_two_runs_share_nothing_and_are_all(collected: pytest.Pytester) -> None:
    collected.makepyfile(test_one=CODE)
    everything = ran(collected)
    first, rest = ran(collected, "--run", "first"), ran(collected, "--run", "rest")
    assert len(everything) == 11 and sorted(first + rest) == sorted(everything)
    assert first[0] == "test_one.py::test_first" and len(first) == 3
    assert ran(collected, "--run", "first") == first


def test_a_file_without_a_test_in_the_first_run_is_told(collected: pytest.Pytester) -> None:
    collected.makepyfile(test_one=CODE, test_two="import pytest\n@pytest.mark.test_all\ndef test_long(): pass\n")
    result = collected.runpytest_inprocess("--collect-only", "--run", "first")
    result.stderr.fnmatch_lines(["*no test of these files is in the first run*test_two.py*"])
