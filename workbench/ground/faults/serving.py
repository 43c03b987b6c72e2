"""The worker's side of the pipes: one job after the other, under an alarm of its own."""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import BinaryIO, Final, TypeAlias

from workbench.ground.errors import WorkbenchError
from workbench.ground.faults.messages import Message, receive, send
from workbench.ground.faults.trial import FAILED, OK, OVERRAN, TRIALS, Verdict

_GRACE_SECONDS: Final = 5
"""Seconds beyond a job's time-out after which the worker ends itself, in case its parent has died."""

Say: TypeAlias = Callable[[str], None]
Work: TypeAlias = Callable[[Message, Say], str]
"""Does one kind of job. It calls `Say` with each next step, and returns the fault that it found, empty for none."""


def serve(jobs: dict[str, Work], requests: BinaryIO, answers: BinaryIO) -> None:
    """Reads jobs from one pipe and answers on the other, until the pipe is closed."""
    TRIALS.inside = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    no_core_dumps()
    with requests, answers:
        send(answers, Message({"ready": os.getpid()}))
        while (job := receive(requests)) is not None:
            with _alarm(job.body["seconds"] + _GRACE_SECONDS):
                verdict = _tried(jobs, job, lambda stage: send(answers, Message({"stage": stage})))
            send(answers, Message({"verdict": asdict(verdict)}))


def _tried(jobs: dict[str, Work], job: Message, say: Say) -> Verdict:
    kind = job.body["kind"]
    try:
        found = jobs[kind](job, say)
    except WorkbenchError as error:
        return Verdict(FAILED, kind, str(error))
    except Exception as error:  # the parent will meet the same exception, and report it better
        return Verdict(FAILED, kind, f"{type(error).__name__}: {error}")
    return Verdict(OVERRAN, "run", found) if found else Verdict(OK)


def no_core_dumps() -> None:
    """Turns core dumps off: a worker may crash by design, and dumps would leave files and take seconds."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        resource = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """Ends this process if the block does not end in time, also in the middle of native code.

    Usually the parent does this, and sooner. If the parent has died, nothing else would stop an endless loop.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)  # runs in a thread of its own that needs no interpreter
    yield
    faulthandler.cancel_dump_traceback_later()
