"""Functions of the user's that would end this process: a fork calls them first."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import time
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.ground.errors import BuilderFailed
from workbench.ground.faults.forked_trial import fault_in_fork


def first_line(function: Any) -> int:
    """The first line of a function's body."""
    return function.__code__.co_firstlineno + 1


@pytest.mark.test_all
def test_only_what_does_not_come_back_is_a_fault(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    seen: list[int] = []

    def fails() -> None:
        seen.append(1)
        print("said")
        os.write(2, b"said loudly")
        raise ValueError

    def ends() -> None:
        os._exit(3)

    def is_killed() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def breaks() -> None:
        ctypes.string_at(0)

    def sleeps() -> None:
        time.sleep(60)

    def loops() -> None:
        sum(itertools.repeat(0))  # of C, which runs no Python

    assert fault_in_fork(fails) == "" and not seen
    assert fault_in_fork(ends).endswith(f"ended itself with exit status 3, at {__file__}:{first_line(ends)} in ends")
    assert "SIGTERM" in fault_in_fork(is_killed)
    assert f"(SIGSEGV), at {__file__}:" in fault_in_fork(breaks) and fault_in_fork(breaks).endswith(" in breaks")
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", "0.5")
    told = f"was not done after 0.5 s, at {__file__}:{first_line(sleeps)} in sleeps. If it only needs more time, "
    assert fault_in_fork(sleeps).startswith(told)
    assert f" s, at {__file__}:{first_line(loops)} in loops. " in fault_in_fork(loops)
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER", "off")
    assert fault_in_fork(sleeps) == ""
    assert capfd.readouterr() == ("", "")


def test_a_fork_computes_with_threads_and_leaves_processes_behind(monkeypatch: pytest.MonkeyPatch):
    torch.randn(4_000_000).exp().sum()  # with threads that a fork does not have

    def computes() -> None:
        torch.linspace(0, 1, 100_000).exp().sum().item()

    def begins_another() -> None:
        subprocess.Popen(["sleep", "20"], stdout=subprocess.DEVNULL)

    def shouts() -> str:
        os.write(2, b"x" * 1_000_000)
        return "what it found"

    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", "10")
    assert fault_in_fork(computes) == fault_in_fork(begins_another) == ""
    assert fault_in_fork(shouts) == "what it found"


def test_a_program_that_ignores_its_children_has_trials():
    def ends() -> None:
        os._exit(3)

    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert fault_in_fork(lambda: None) == ""
        assert fault_in_fork(ends).endswith(f"ended, at {__file__}:{first_line(ends)} in ends")
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_interrupting_it_ends_the_fork(monkeypatch: pytest.MonkeyPatch):
    forks: list[int] = []
    fork = os.fork

    def noted() -> int:
        forks.append(child := fork())
        return child

    def sleeps() -> None:
        time.sleep(60)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fork", noted)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            fault_in_fork(sleeps)
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ProcessLookupError):
        os.kill(forks[0], 0)


@pytest.mark.test_all
@pytest.mark.parametrize("erases", [False, True])
def test_a_builder_that_would_end_the_process_is_an_error(erases: bool):
    with wb.ops.scope():

        @wb.ops.builder("aten.frac.default", dialect="tensor", kind="elementwise")
        def frac(op: Any) -> Any:
            if not erases:
                ctypes.string_at(0)
            made = op.empty()
            made.owner.operation.erase()
            return made

        with pytest.raises(BuilderFailed, match=r"frac .*ends its process: a fork of this one, which is unharmed"):
            _ = wb.trace(torch.frac, torch.randn(3, 4)).rendered
