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

from workbench.errors import WorkbenchError
from workbench.faults.messages import Message, receive, send
from workbench.faults.trial import FAILED, OK, OVERRAN, TRIALS, Verdict

_GRACE_SECONDS: Final = 5
"""How much longer than allowed a job may take before the worker ends itself, should nobody else be left to do it."""

Say: TypeAlias = Callable[[str], None]
Work: TypeAlias = Callable[[Message, Say], str]
"""What a kind of job does. `Say` is told what comes next; the text is what was written where it must not."""


def serve(jobs: dict[str, Work], requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers jobs that come on one pipe on the other, until nobody is left to ask."""
    TRIALS.inside = True
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _no_core_dumps()
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
    except Exception as error:  # whatever it is, the process that asked will meet it too, and tell it better
        return Verdict(FAILED, kind, f"{type(error).__name__}: {error}")
    return Verdict(OVERRAN, "run", found) if found else Verdict(OK)


def _no_core_dumps() -> None:
    """A crash is what a worker is for; it shall leave no files, and no seconds of writing them."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        resource = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """Has this process end unless the block is left in time, also in the middle of native code.

    Usually the process that asked does this, and sooner. It may have died, and an endless loop has no other end then.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)  # a thread of its own that needs no interpreter
    yield
    faulthandler.cancel_dump_traceback_later()
