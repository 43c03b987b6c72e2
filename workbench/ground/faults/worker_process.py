"""The parent's side of the worker: it starts the worker at its first use, and again whenever it has died."""

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
from typing import IO, BinaryIO, Final, cast
from weakref import WeakSet

from workbench.ground.environment.turns import own_lock
from workbench.ground.errors import WorkerUnavailable
from workbench.ground.faults.messages import Message, begins, receive, send

_START_SECONDS: Final = 300.0
"""The most seconds for the start. Importing PyTorch takes two, but many more on a busy machine or a cold disk. A worker
that ends is noticed at once."""

_SAID_BYTES: Final = 1 << 16
"""The most bytes kept of native code's output: its first lines have the reason; a stack dump follows."""

_BOOT: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; from workbench.ground.faults.messages import taken; ends = taken(); "
    "from workbench.commands.worker import main; main(*ends)"
)
"""The pipes are taken before PyTorch is imported, which may print something. `-m` would put the working directory first
on the path, where a user's file may be called like a package."""


@dataclass(frozen=True, slots=True)
class Died:
    """The worker ended in the middle of a job."""

    returncode: int
    """Negative for a signal."""
    said: str
    """The worker's output on stderr during the job."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """The worker exceeded its time-out, and was ended."""

    said: str


@dataclass(frozen=True)
class _Running:
    """A worker process and the pipes to and from it."""

    process: subprocess.Popen[bytes]
    jobs: BinaryIO
    answers: queue.Queue[Message | None]
    """Answers that a thread reads from the worker; None at the end."""
    said: _Collected


class WorkerProcess:
    """A process that takes one job at a time. Threads wait for each other."""

    def __init__(self, command: list[str] | None = None) -> None:
        """`command` starts the process; jobs come on its standard input, and answers go to its standard output."""
        self._command = command
        self._turn = own_lock()
        self._running: _Running | None = None
        self._parents: _Running | None = None
        """After a fork: the parent's process, kept so that this child neither closes its pipes nor waits for it."""
        self.started = 0
        """The number of processes started so far."""
        _WORKERS.add(self)

    @property
    def pid(self) -> int | None:
        """The id of the process that takes the next job; None if it has yet to be started."""
        return self._running.process.pid if self._running else None

    def ask(
        self, job: Message, seconds: float, at_stage: Callable[[str], None] = lambda _: None
    ) -> Message | Died | Overdue:
        """The answer to a job. `at_stage` is called with the worker's next step. Interrupting ends the worker."""
        with self._turn:
            running = self._ready()
            try:
                return self._answer(running, job, seconds, at_stage)
            except BaseException:
                self._end()
                raise

    def start(self) -> None:
        """Starts the process, if there is none, so that the next job does not wait for the start."""
        with self._turn:
            self._ready()

    def end(self) -> None:
        """Ends the process, if there is one, after its current job; the next job starts another."""
        with self._turn:
            self._end()

    def leave(self) -> None:
        """Forgets, in a forked child, the parent's process, whose pipe this child must not keep open or write to."""
        self._parents, self._running = self._running, None
        if self._parents is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._parents.jobs.fileno(), inheritable=False)
            os.close(nowhere)

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        running.process.kill()
        running.process.wait()
        running.said.wait()
        with contextlib.suppress(OSError):  # unwritten bytes have no reader
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
                self._end()
                return Overdue(running.said.text())
            if answer is None:
                return self._died(running)
            if "stage" not in answer.body:
                return answer
            at_stage(answer.body["stage"])

    def _died(self, running: _Running) -> Died:
        with contextlib.suppress(subprocess.TimeoutExpired):  # the worker may have closed its pipe and still run
            running.process.wait(timeout=5)
        self._end()
        return Died(running.process.returncode, running.said.text())

    def _ready(self) -> _Running:
        running = self._running
        if running is not None and running.process.poll() is not None:
            self._end()
        return self._running or self._start()

    def _start(self) -> _Running:
        running = _launched(self._command or [sys.executable, "-c", _BOOT, *_search_path()])
        self._running = running
        self.started += 1
        atexit.unregister(self._end)
        atexit.register(self._end)  # ends at once, even if another thread still waits
        try:
            ready = running.answers.get(timeout=_START_SECONDS)
        except queue.Empty:
            self._end()
            raise WorkerUnavailable(f"it was not ready within {_START_SECONDS:g} s") from None
        except BaseException:
            self._end()
            raise
        if ready is None:
            died = self._died(running)
            raise WorkerUnavailable(
                f"it {ending(died.returncode)} while it started, and said: {died.said or 'nothing'}"
            )
        return running


_WORKERS: Final[WeakSet[WorkerProcess]] = WeakSet()


def _in_child() -> None:
    for worker in _WORKERS:
        worker.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def _launched(command: list[str]) -> _Running:
    """Starts a process with pipes to and from it."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C in the terminal must reach only this process, which then decides
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except (OSError, ValueError) as error:
        raise WorkerUnavailable(f"{command[0]!r} cannot be started: {error}") from None
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    answers: queue.Queue[Message | None] = queue.Queue()
    reader = cast(BinaryIO, process.stdout)
    threading.Thread(target=_listen, args=(reader, answers), name="answers of the worker", daemon=True).start()
    return _Running(process, cast(BinaryIO, process.stdin), answers, _Collected(process.stderr))


_ON_WINDOWS: Final = {
    0xC0000005: "an access violation", 0xC0000094: "a division fault", 0xC00000FD: "a stack overflow",
    0xC000001D: "an illegal instruction", 0xC0000409: "an abort",
}  # fmt: skip
"""Exit statuses of Windows for a process that was ended."""


def ending(returncode: int) -> str:
    """Tells the end of a process in words: `was ended by a segmentation fault (SIGSEGV)`."""
    if fault := _ON_WINDOWS.get(returncode & 0xFFFFFFFF):
        return f"was ended by {fault} (0x{returncode & 0xFFFFFFFF:X})"
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
    """The output of a process, read as it comes, so that a flood of it neither blocks a pipe nor fills the memory."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._collect, args=(stream,), name="words of the worker", daemon=True)
        self._thread.start()

    def _collect(self, stream: IO[bytes]) -> None:
        with stream:
            while chunk := os.read(stream.fileno(), 1 << 14):
                self._kept += chunk[: max(0, _SAID_BYTES - len(self._kept))]

    def forget(self) -> None:
        """Drops the output so far, for a new job."""
        self._kept.clear()

    def wait(self) -> None:
        """Waits until all output of an ended process is read."""
        self._thread.join(timeout=5)

    def text(self) -> str:
        return self._kept.decode(errors="replace").strip()


def _listen(stream: BinaryIO, answers: queue.Queue[Message | None]) -> None:
    """Puts every answer into the queue, None at the end."""
    with stream:
        try:
            begun = begins(stream)
            while begun and (message := receive(stream)) is not None:
                answers.put(message)
        except (OSError, ValueError):  # the stream has no messages of ours
            pass
    answers.put(None)


def _search_path() -> list[str]:
    """This process's search path for modules, with this package's own folder, as absolute paths."""
    own = str(Path(__file__).resolve().parents[3])
    found = [os.path.abspath(each) for each in sys.path]
    return found if own in found else [*found, own]
