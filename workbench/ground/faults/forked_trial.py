"""Trials in a fork: a function of the user's, which exists in this process alone, so that no worker could call it.

A fork of this process does the work first, on its own copy of everything, and ends. What the function changes or prints
there is lost; this process does the work again, if the fork came back from it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import io
import itertools
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Final, NoReturn

from workbench.ground.environment.call_sites import cell_name, is_users
from workbench.ground.environment.this_thread import Filter, warnings_here
from workbench.ground.faults.serving import no_core_dumps
from workbench.ground.faults.trial import CRASHED, HUNG, OK, TRIALS, Verdict, seconds_allowed
from workbench.ground.faults.worker_process import ending

_SAID_BYTES: Final = 1 << 16
"""The most bytes kept of the begin, and of the end, of the fork's output."""
_BACK: Final = "\0back\0"
"""The fork writes this mark when the work has returned, and then the text that the work returned."""
_LOOKS_SECONDS: Final = 0.05
"""Seconds between two tests if a silent fork has ended: a process that the fork started may hold its pipe open."""
_SECONDS_TO_SAY_WHERE: Final = 2.0
"""Seconds that an unfinished fork has to write its stack."""
_exit: Final = os._exit
_NATIVE_FAULT: Final = "Fatal Python error: "
"""The begin of faulthandler's text."""


def fault_in_fork(work: Callable[[], object], advice: str = "") -> str:
    """Does the work in a fork of this process and returns the fault that ended the fork, in words that follow the
    work's name; empty if the work returns. The text names the innermost of the user's lines. A text that the work
    returns is a mistake that the work found: it is returned as it is, so that this process need not do the work.
    `advice` follows if native code ended the fork."""
    verdict = _verdict(work)
    if verdict.outcome == HUNG:
        more = "If it only needs more time, set ATEN_WORKBENCH_WORKER_TIMEOUT to more seconds"
        return f"{verdict.reason}, {_place(verdict.said)}. {more}; otherwise look for a loop that has no end"
    if verdict.harmless:
        return verdict.said.rpartition(_BACK)[2]
    where = _place(verdict.said)
    text = f"ends its process: a fork of this one, which is unharmed, {verdict.reason}, {where}"
    return f"{text}. {advice}" if advice and _NATIVE_FAULT in verdict.said else text


def _place(said: str) -> str:
    """The user's line at which a fault ended the fork, from the stack that the fork wrote, innermost first."""
    frames = re.findall(r'File "(.+)", line (\d+) in (\S+)', said)
    inside = list(itertools.takewhile(lambda frame: frame[0] != __file__, frames))
    users = [frame for frame in inside if is_users(frame[0])]
    if len(inside) == len(frames):
        return "at an unknown line"
    if not users:
        return "when MLIR read its ops after it"
    file, line, function = next(frame for frame in users if frame[0] == users[-1][0])
    return f"at {cell_name(file)}:{line} in {function}"


def _verdict(work: Callable[[], object]) -> Verdict:
    """The verdict of a fork that does the work: ok, crashed or hung. Work that raises an exception is ok.

    Where processes cannot fork, or trials are switched off, everything is ok.
    """
    if TRIALS.off() or not hasattr(os, "fork"):
        return Verdict(OK)
    seconds = seconds_allowed()
    ear, mouth = os.pipe()
    with warnings_here(Filter("ignore", DeprecationWarning)):  # about other threads: the child only works and ends
        child = os.fork()
    if child == 0:
        _do(work, mouth)
    os.close(mouth)
    try:
        said = _heard(ear, child, time.monotonic() + seconds)
        hung = said is None
        if hung:
            os.kill(child, signal.SIGUSR1)
            said = _heard(ear, child, time.monotonic() + _SECONDS_TO_SAY_WHERE)
    except BaseException:
        _end(child)
        raise
    finally:
        os.close(ear)
    if hung or said is None:
        _end(child)
        return Verdict(HUNG, "", f"was not done after {seconds:g} s", said or "", seconds)
    reason = _awaited(child)
    return Verdict(OK, said=said) if _BACK in said else Verdict(CRASHED, "", reason, said)


def _do(work: Callable[[], object], mouth: int) -> NoReturn:
    """Does the work in the fork, without standard input and output. A native fault, and the signal to work that is not
    done, write the stack to `mouth`."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        no_core_dumps()
        os.dup2(mouth, 2)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        faulthandler.enable(file=2)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        faulthandler.register(signal.SIGUSR1, file=2, all_threads=False, chain=True)  # the process ends after it
        os._exit = _exit_with_stack
        sys.stdout = sys.stderr = io.StringIO()
        sys.breakpointhook = lambda *_args, **_keys: None
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # the threads of this process are not in its fork, which would wait for them
        found: object = None
        with contextlib.suppress(BaseException):  # this process's own run raises it again
            found = work()
        os.write(mouth, f"{_BACK}{found if isinstance(found, str) else ''}".encode(errors="replace"))
    finally:
        _exit(0)


def _exit_with_stack(status: int) -> NoReturn:
    """Exits in place of `os._exit` in the fork, after writing the stack, so that the user's line with this call is
    known."""
    frame = inspect.currentframe()
    while frame := frame and frame.f_back:
        os.write(2, f'File "{frame.f_code.co_filename}", line {frame.f_lineno} in {frame.f_code.co_name}\n'.encode())
    _exit(status)


def _heard(ear: int, child: int, deadline: float) -> str | None:
    """Reads the fork's output until the fork ends; None if it does not end in time."""
    kept = bytearray()
    while True:
        over = _has_ended(child)  # tested before the pipe is read, so that no output is missed
        if select.select([ear], [], [], 0.0 if over else _LOOKS_SECONDS)[0]:
            chunk = os.read(ear, 1 << 14)
            kept += chunk
            if len(kept) > 2 * _SAID_BYTES:
                kept = kept[:_SAID_BYTES] + kept[-_SAID_BYTES:]
            if chunk:
                continue
            over = True
        if over:
            return kept.decode(errors="replace").strip()
        if time.monotonic() > deadline:
            return None


def _has_ended(child: int) -> bool:
    if not hasattr(os, "waitid"):  # then the end of the pipe tells
        return False
    try:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # a program that ignores SIGCHLD has no children to wait for once they have ended
        return True


def _awaited(child: int) -> str:
    """Waits for the child and tells its end in words."""
    try:
        return ending(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    except ChildProcessError:
        return "ended"


def _end(child: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
