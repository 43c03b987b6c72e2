"""The worker seen from the process that asks it: started when first needed, and again whenever it has died."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Final

from workbench.errors import WorkerUnavailable
from workbench.faults.channel import Message, receive, send

_START_SECONDS: Final = 120.0
"""Importing PyTorch takes two seconds, on a machine that is busy or has a cold disk many more."""

_SAID_BYTES: Final = 1 << 16
"""How much of what native code says is kept: its beginning, which names the reason; a stack dump comes after."""

_BOOT: Final = (
    "import sys; *sys.path[:], take, give = sys.argv[1:]; from workbench.worker import main; main(int(take), int(give))"
)
"""`-m` would put the working directory first on the path, where a user's file may be called like a package."""


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended in the middle of a job."""

    returncode: int
    """Negative for a signal."""
    said: str
    """What it wrote to stderr during the job."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """The worker took longer than allowed, and was ended."""

    said: str


@dataclass(frozen=True)
class _Running:
    """A worker process and the ways to and from it."""

    process: subprocess.Popen[bytes]
    jobs: BinaryIO
    answers: queue.Queue[Message | None]
    """Filled by a thread; None at the end."""
    said: _Collected
    owner: int
    """The process that started it. A fork of that has the same pipes, but must not use them."""


class WorkerProcess:
    """One process that takes one job at a time. Threads wait for each other."""

    def __init__(self, command: list[str] | None = None) -> None:
        """`command` is what starts it; the file descriptors to read from and write to are added."""
        self._command = command
        self._turn = threading.Lock()
        self._running: _Running | None = None
        self.started = 0
        """How many processes have been started."""

    @property
    def pid(self) -> int | None:
        """Of the process that takes the next job; None when that has yet to be started."""
        return self._running.process.pid if self._running else None

    def ask(
        self, job: Message, seconds: float, at_stage: Callable[[str], None] = lambda _: None
    ) -> Message | Died | Overdue:
        """The answer to a job. `at_stage` is told what the worker is about to do. Interrupting ends the worker."""
        with self._turn:
            running = self._ready()
            try:
                return self._answer(running, job, seconds, at_stage)
            except BaseException:
                self.end()
                raise

    def end(self) -> None:
        """Ends the process, if there is one; the next job starts another."""
        running, self._running = self._running, None
        if running is None or running.owner != os.getpid():
            return
        running.process.kill()
        running.process.wait()
        running.said.wait()
        with contextlib.suppress(OSError):  # what was still to be written has no reader
            running.jobs.close()

    def _answer(
        self, running: _Running, job: Message, seconds: float, at_stage: Callable[[str], None]
    ) -> Message | Died | Overdue:
        running.said.forget()
        deadline = time.monotonic() + seconds
        try:
            send(running.jobs, Message({**job.body, "seconds": seconds}, job.blocks))
        except OSError:
            return self._died(running)
        while True:
            try:
                answer = running.answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                self.end()
                return Overdue(running.said.text())
            if answer is None:
                return self._died(running)
            if "stage" not in answer.body:
                return answer
            at_stage(answer.body["stage"])

    def _died(self, running: _Running) -> Died:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may have closed its pipe and live on
            running.process.wait(timeout=5)
        self.end()
        return Died(running.process.returncode, running.said.text())

    def _ready(self) -> _Running:
        running = self._running
        if running is not None and running.owner == os.getpid() and running.process.poll() is not None:
            self.end()
        if self._running is None or self._running.owner != os.getpid():
            self._running = self._start()
        return self._running

    def _start(self) -> _Running:
        running = _launched(self._command or [sys.executable, "-c", _BOOT, *_search_path()])
        self._running = running
        self.started += 1
        atexit.unregister(self.end)
        atexit.register(self.end)
        try:
            ready = running.answers.get(timeout=_START_SECONDS)
        except queue.Empty:
            self.end()
            raise WorkerUnavailable(f"it was not ready within {_START_SECONDS:g} s") from None
        except BaseException:
            self.end()
            raise
        if ready is None:
            died = self._died(running)
            raise WorkerUnavailable(
                f"it {ending(died.returncode)} while it started, and said: {died.said or 'nothing'}"
            )
        return running


def _launched(command: list[str]) -> _Running:
    """A process with pipes to and from it. Its standard input is empty: the user's is not for it to read."""
    take_jobs, give_jobs = os.pipe()
    take_answers, give_answers = os.pipe()
    try:
        process = subprocess.Popen(
            [*command, str(take_jobs), str(give_answers)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(take_jobs, give_answers),
            start_new_session=True,  # Ctrl-C in the terminal is for this process, which then decides
        )
    except (OSError, ValueError) as error:
        for end in (give_jobs, take_answers):
            os.close(end)
        raise WorkerUnavailable(f"{command[0]!r} cannot be started: {error}") from None
    finally:
        for end in (take_jobs, give_answers):
            os.close(end)
    assert process.stdout is not None
    answers: queue.Queue[Message | None] = queue.Queue()
    reader = os.fdopen(take_answers, "rb")
    threading.Thread(target=_listen, args=(reader, answers), name="answers of the worker", daemon=True).start()
    return _Running(process, os.fdopen(give_jobs, "wb"), answers, _Collected(process.stdout), os.getpid())


def ending(returncode: int) -> str:
    """In words how a process ended: `was ended by a segmentation fault (SIGSEGV)`."""
    if returncode >= 0:
        return f"ended itself with exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    words = {"SIGSEGV": "a segmentation fault", "SIGFPE": "a division fault", "SIGABRT": "an abort"} | {
        "SIGBUS": "a bus error", "SIGILL": "an illegal instruction", "SIGKILL": "a kill from outside",
    }  # fmt: skip
    return f"was ended by {words[name]} ({name})" if name in words else f"was ended by {name}"


class _Collected:
    """What a process says, read as it comes, so that a flood of it blocks nobody and fills nothing."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._collect, args=(stream,), name="words of the worker", daemon=True)
        self._thread.start()

    def _collect(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), 1 << 14):
                self._kept += chunk[: max(0, _SAID_BYTES - len(self._kept))]

    def forget(self) -> None:
        """Begins anew, for a new job."""
        self._kept.clear()

    def wait(self) -> None:
        """Until all is read that a process said that has ended."""
        self._thread.join(timeout=5)

    def text(self) -> str:
        return self._kept.decode(errors="replace").strip()


def _listen(stream: BinaryIO, answers: queue.Queue[Message | None]) -> None:
    """Puts every answer into the queue, None at the end."""
    with stream:
        try:
            while (message := receive(stream)) is not None:
                answers.put(message)
        except (OSError, ValueError):  # no messages of ours
            pass
    answers.put(None)


def _search_path() -> list[str]:
    """Where this process finds modules, this package's own folder included, as absolute paths."""
    own = str(Path(__file__).resolve().parents[2])
    found = [os.path.abspath(each) for each in sys.path]
    return found if own in found else [*found, own]
