"""The worker as a process: it answers, dies, hangs, floods, is killed and is not there, and whoever asks lives on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faults.pretender import ROOT, pretender
from workbench.ground.errors import WorkerUnavailable
from workbench.ground.faults.messages import Message
from workbench.ground.faults.worker_process import Died, Overdue, WorkerProcess, ending

LONG = 60.0


def job(kind: str = "good", /, **more: object) -> Message:
    return Message({"kind": kind, **more})


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    made = pretender()
    yield made
    made.end()


def is_alive(pid: int) -> bool:
    """True if there is such a process; one that has ended and that nobody has asked about is none."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


def outcome(answer: object) -> str:
    assert isinstance(answer, Message)
    return str(answer.body["verdict"]["outcome"])


def test_nothing_is_started_before_it_is_asked_and_one_process_answers_all(worker: WorkerProcess) -> None:
    assert (worker.pid, worker.started) == (None, 0)
    assert [outcome(worker.ask(job(), LONG)) for _ in range(3)] == ["ok"] * 3
    assert worker.started == 1


def test_blocks_of_bytes_go_over_whole(worker: WorkerProcess) -> None:
    blocks = [b"", bytes(5), memoryview(bytes(8 << 20))]
    message = Message({"kind": "good", "bytes": [len(block) for block in blocks]}, blocks)
    assert outcome(worker.ask(message, LONG)) == "ok"


def test_a_crash_is_an_answer_with_signal_stage_and_words_and_the_next_job_has_a_new_process(worker: WorkerProcess):
    stages: list[str] = []
    died = worker.ask(job("crash"), LONG, stages.append)
    assert isinstance(died, Died)
    assert (died.returncode, stages) == (-signal.SIGSEGV, ["compile"])
    assert died.said.startswith("LLVM ERROR: something is wrong")
    assert outcome(worker.ask(job(), LONG)) == "ok"
    assert worker.started == 2


def test_an_exit_is_told_from_a_signal(worker: WorkerProcess) -> None:
    died = worker.ask(job("crash", exit=3), LONG)
    assert isinstance(died, Died)
    assert ending(died.returncode) == "ended itself with exit status 3"
    assert ending(-signal.SIGSEGV) == "was ended by a segmentation fault (SIGSEGV)"


def test_what_takes_too_long_is_ended(worker: WorkerProcess) -> None:
    worker.ask(job(), LONG)
    pid = worker.pid
    assert isinstance(worker.ask(job(sleep=LONG), 0.2), Overdue)
    assert worker.pid is None and pid is not None and not is_alive(pid)
    assert outcome(worker.ask(job(), LONG)) == "ok"


def test_killed_in_the_middle_of_a_job(worker: WorkerProcess) -> None:
    def kill(stage: str) -> None:
        assert stage == "sleep" and worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)

    died = worker.ask(job(sleep=LONG), LONG, kill)
    assert isinstance(died, Died) and died.returncode == -signal.SIGKILL
    assert outcome(worker.ask(job(), LONG)) == "ok"


def test_killed_between_two_jobs(worker: WorkerProcess) -> None:
    worker.ask(job(), LONG)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    while is_alive(worker.pid):
        time.sleep(0.01)
    assert outcome(worker.ask(job(), LONG)) == "ok"
    assert worker.started == 2


def test_a_flood_of_words_blocks_nothing_and_only_its_beginning_is_kept(worker: WorkerProcess) -> None:
    assert outcome(worker.ask(job(flood=20 << 20), LONG)) == "ok"
    died = worker.ask(job("crash"), LONG)
    assert isinstance(died, Died) and len(died.said) <= 1 << 16


def test_many_threads_take_turns(worker: WorkerProcess) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(outcome(worker.ask(job(), LONG)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["ok"] * 8 and worker.started == 1


def test_its_standard_input_is_empty(worker: WorkerProcess) -> None:
    answer = worker.ask(job(read=True), LONG)
    assert isinstance(answer, Message)
    assert answer.body["verdict"]["reason"] == "ValueError: stdin has ''"


def test_interrupting_ends_the_job_and_nothing_else(worker: WorkerProcess) -> None:
    def interrupt(stage: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.ask(job(sleep=LONG), LONG, interrupt)
    assert worker.pid is None
    assert outcome(worker.ask(job(), LONG)) == "ok"


def test_ctrl_c_in_the_terminal_does_not_reach_it(worker: WorkerProcess) -> None:
    worker.ask(job(), LONG)
    assert worker.pid is not None and os.getpgid(worker.pid) != os.getpgid(0)
    os.kill(worker.pid, signal.SIGINT)
    assert outcome(worker.ask(job(), LONG)) == "ok" and worker.started == 1


def test_a_fork_leaves_its_parents_worker_alone(worker: WorkerProcess) -> None:
    worker.ask(job(), LONG)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            worker.ask(job(), LONG)
            started = worker.started
            worker.end()
            os._exit(started)
        os._exit(99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert outcome(worker.ask(job(), LONG)) == "ok" and worker.started == 1


@pytest.mark.test_all
@pytest.mark.parametrize("asked", [{}, {"sleep": LONG}])
def test_it_goes_when_the_process_that_asked_is_killed(asked: dict[str, float]) -> None:
    """Idle, it sees the end of the pipe; at work, the system ends it."""
    code = f"""
import os, sys
sys.path.insert(0, {ROOT!r})
import workbench.ground.faults.serving as serving
from tests.faults.test_worker_process import job, pretender
worker = pretender()
worker.ask(job(), 60)
print(worker.pid, flush=True)
worker.ask(job(**{asked!r}), -4.5, lambda stage: os.kill(os.getpid(), 9))
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    deadline = time.monotonic() + 30
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(pid)


def test_no_process_at_all_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(WorkerUnavailable, match=r"'/nowhere/python' cannot be started.*ATEN_WORKBENCH_WORKER=off"):
        WorkerProcess(["/nowhere/python"]).ask(job(), LONG)


def test_one_that_ends_while_it_starts_is_told_with_its_words() -> None:
    worker = WorkerProcess([sys.executable, "-c", "import sys; sys.exit('no torch here')"])
    with pytest.raises(WorkerUnavailable, match="exit status 1 while it started, and said: no torch here"):
        worker.ask(job(), LONG)
    assert worker.pid is None


def test_no_messages_of_ours_are_no_answers() -> None:
    code = "import os; os.write(1, b'hello there!')"
    with pytest.raises(WorkerUnavailable):
        WorkerProcess([sys.executable, "-c", code]).ask(job(), LONG)
