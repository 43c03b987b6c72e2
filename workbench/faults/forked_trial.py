"""Trials in a fork: work that is a function of this process, so that no worker could do it, such as a user's pass.

A fork of this process does the work first, on its own copy of everything, and ends. What the function changes or prints
there is lost; this process does the work again, if the fork came back from it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Final, NoReturn

from workbench.faults.serving import no_core_dumps
from workbench.faults.trial import CRASHED, HUNG, OK, TRIALS, Verdict, seconds_allowed
from workbench.faults.worker_process import ending

_SAID_BYTES: Final = 1 << 16
"""The most bytes kept of what the fork says: first is the reason, then the stack of Python."""


def forked_verdict(work: Callable[[], object]) -> Verdict:
    """Whether a fork of this process comes back from the work: ok, crashed or hung. An exception is a way back.

    Where processes cannot fork, or trials are switched off, everything is ok.
    """
    if TRIALS.off() or not hasattr(os, "fork"):
        return Verdict(OK)
    seconds = seconds_allowed()
    ear, mouth = os.pipe()
    with warnings.catch_warnings():  # of other threads: the child only calls the work, and ends
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _do(work, mouth)
    os.close(mouth)
    try:
        said = _heard(ear, time.monotonic() + seconds)
    except BaseException:
        _end(child)
        raise
    finally:
        os.close(ear)
    if said is None:
        _end(child)
        return Verdict(HUNG, "", f"was not done after {seconds:g} s", seconds=seconds)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Verdict(OK) if code == 0 else Verdict(CRASHED, "", ending(code), said)


def _do(work: Callable[[], object], mouth: int) -> NoReturn:
    """In the fork: the work, with nothing to print to or to ask. A native fault writes its stack to `mouth`."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        no_core_dumps()
        os.dup2(mouth, 2)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        faulthandler.enable(file=2)
        sys.stdout = sys.stderr = io.StringIO()
        sys.breakpointhook = lambda *_args, **_keys: None
        with contextlib.suppress(BaseException):  # this process's own run raises it again
            work()
    finally:
        os._exit(0)


def _heard(ear: int, deadline: float) -> str | None:
    """What the fork writes until it ends; None if it does not end in time."""
    kept = bytearray()
    while select.select([ear], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(ear, 1 << 14)
        if not chunk:
            return kept.decode(errors="replace").strip()
        kept += chunk[: max(0, _SAID_BYTES - len(kept))]
    return None


def _end(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
