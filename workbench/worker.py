"""The worker: a process that does what may end the process that does it, and says what came of it.

It takes jobs from one pipe and answers on another, in the messages of `faults.channel`. Its standard streams are for
what native code has to say: `faults.process` collects that for the error.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Final

from workbench.errors import WorkbenchError
from workbench.faults.channel import Message, receive, send
from workbench.faults.trial import FAILED, OK, OVERRAN, TRIALS, Verdict
from workbench.ir import codec
from workbench.mlir import guarded, handwritten, importer
from workbench.ops import fx, importing
from workbench.stages import schedule

_GRACE_SECONDS: Final = 5
"""How much longer than allowed a job may take before the system ends the worker, should nobody else be left to."""

Say = Callable[[str], None]


def main(read_from: int, write_to: int) -> None:
    """Answers jobs that come on one file descriptor on the other, until nobody is left to ask."""
    TRIALS.inside = True
    requests, answers = os.fdopen(read_from, "rb"), os.fdopen(write_to, "wb")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _no_core_dumps()
    send(answers, Message({"ready": os.getpid()}))
    while (job := receive(requests)) is not None:
        with _alarm(job.body["seconds"]):
            verdict = _tried(job, lambda stage: send(answers, Message({"stage": stage})))
        send(answers, Message(asdict(verdict)))


def _tried(job: Message, say: Say) -> Verdict:
    kind = job.body["kind"]
    try:
        found = JOBS[kind](job, say)
    except WorkbenchError as error:
        return Verdict(FAILED, kind, str(error))
    except Exception as error:  # whatever it is, the process that asked will meet it too, and tell it better
        return Verdict(FAILED, kind, f"{type(error).__name__}: {error}")
    return Verdict(OVERRAN, "run", found) if found else Verdict(OK)


def _import(job: Message, say: Say) -> str:
    piece = codec.decode(importing.Piece, job.body["piece"])
    module = fx.graph_module(piece.nodes, piece.types, piece.inputs, piece.outputs, "kernel")
    importer.import_kernel(module, "kernel", [piece.types[value] for value in (*piece.inputs, *piece.outputs)])
    return ""


def _schedule(job: Message, say: Say) -> str:
    schedule.try_schedule(job)
    return ""


def _read(job: Message, say: Say) -> str:
    handwritten.try_read(job)
    return ""


def _run(job: Message, say: Say) -> str:
    return guarded.try_run(job, say)


JOBS: Final[dict[str, Callable[[Message, Say], str]]] = {
    "import": _import,
    "schedule": _schedule,
    "read": _read,
    "run": _run,
}
"""What each kind of trial does; the text it gives back is what was found wrong."""


def _no_core_dumps() -> None:
    """A crash is what a worker is for; it shall leave no files, and no seconds of writing them."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        resource = importlib.import_module("resource")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@contextlib.contextmanager
def _alarm(seconds: float) -> Generator[None]:
    """Ends this process if the job is not done in time and the process that asked, which would see to it, is gone."""
    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
