"""A plugin of pytest that writes down which functions of our sources each passing test calls, and how long it takes.

`REACHING` names the file it adds lines to: a test, its seconds, its functions. A call is noticed by the interpreter's
tracing, so only functions that run as plain Python are: those that Numba compiles do with `NUMBA_DISABLE_JIT=1`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = tuple(f"{ROOT / package}{os.sep}" for package in ("simulator", "workbench"))

_called: dict[int, CodeType] = {}
_phases: list[pytest.TestReport] = []


def _notice(frame: FrameType, event: str, argument: object) -> None:
    _called[id(frame.f_code)] = frame.f_code


def pytest_sessionstart() -> None:
    threading.settrace(_notice)
    sys.settrace(_notice)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _called.clear()
    sys.settrace(_notice)  # a test may have taken it away
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "setup":
        _phases.clear()
    _phases.append(report)
    if report.when == "teardown" and len(_phases) == 3 and all(each.passed for each in _phases):
        ours = {code for code in list(_called.values()) if code.co_filename.startswith(PACKAGES)}
        names = sorted(f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}" for code in ours)
        with open(os.environ["REACHING"], "a") as written:
            print(json.dumps([report.nodeid, sum(each.duration for each in _phases), names]), file=written)
