"""Verdicts: what becomes of each ending, what is remembered and for how long, and how it is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.pretender import pretender
from workbench.ground.errors import BadOption, KernelCrashed, KernelHung, KernelOverran
from workbench.ground.faults import trial
from workbench.ground.faults.messages import Message
from workbench.ground.faults.trial import Trial, Trials, Verdict
from workbench.ground.faults.worker_process import WorkerProcess, ending


def asked(kind: str = "good", key: str = "k", **body: object) -> Trial:
    return Trial(kind, key, lambda: Message(dict(body)), "k0_mm", ("aten.mm.default at model.py:12",))


@pytest.fixture
def trials(nothing_kept: None) -> Iterator[Trials]:
    made = Trials(pretender())
    yield made
    made.worker.end()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Verdicts are kept on disk, in a folder of the test's own."""
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "on")
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path))
    return tmp_path


def test_good_work_passes_and_is_not_tried_again(trials: Trials) -> None:
    trials.pass_or_raise(asked())
    trials.pass_or_raise(Trial("good", "k", lambda: pytest.fail("the work was asked for again"), "other", ()))
    assert trials.worker.started == 1


def test_a_crash_is_an_error_with_kernel_nodes_stage_and_signal(trials: Trials) -> None:
    with pytest.raises(KernelCrashed) as raised:
        trials.pass_or_raise(asked("crash"))
    text = str(raised.value)
    for part in (
        "kernel k0_mm ends the process that works on it (stage: compile)",
        "segmentation fault (SIGSEGV)",
        "aten.mm.default at model.py:12",
        "LLVM ERROR: something is wrong",
        "this process is unharmed",
        "workbench new-op",
    ):
        assert part in text


@pytest.mark.test_all
def test_what_hangs_and_what_overruns_have_errors_of_their_own(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", "3")
    with pytest.raises(KernelHung, match=r"stage: sleep\): was not done after 3 s"):
        trials.pass_or_raise(asked(sleep=60))
    monkeypatch.delenv("ATEN_WORKBENCH_WORKER_TIMEOUT")
    with pytest.raises(KernelOverran, match="writes 4 bytes past argument y"):
        trials.pass_or_raise(asked("overrun"))
    assert trials.worker.pid is None, "its memory is not what it should be"


def test_an_ordinary_exception_is_no_fault(trials: Trials) -> None:
    verdict = trials.verdict(asked(read=True))
    assert (verdict.outcome, verdict.harmless) == ("failed", True)


@pytest.mark.parametrize("kind", ["good", "crash", "overrun"])
def test_another_process_knows_the_verdict_without_a_worker(trials: Trials, kept: Path, kind: str) -> None:
    first = trials.verdict(asked(kind))
    later = Trials(WorkerProcess(["/nowhere/python"]))
    assert later.verdict(asked(kind)) == first
    assert later.worker.started == 0
    assert list((kept / "verdicts").glob("*.entry"))


def test_without_a_cache_nothing_is_left_on_disk(
    trials: Trials, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", "off")
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path))
    trials.verdict(asked())
    assert not list(tmp_path.iterdir())


def test_a_damaged_verdict_is_found_out_again(trials: Trials, kept: Path) -> None:
    trials.verdict(asked())
    (entry,) = (kept / "verdicts").glob("*.entry")
    entry.write_bytes(entry.read_bytes()[:-1] + b"?")
    again = Trials(trials.worker)
    assert again.verdict(asked()).outcome == "ok" and trials.worker.started == 1


def test_kinds_keys_and_versions_have_verdicts_of_their_own(
    trials: Trials, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trials.verdict(asked("good", key="a")).outcome == "ok"
    assert trials.verdict(asked("crash", key="a")).outcome == "crashed"
    monkeypatch.setattr(trial, "made_by", lambda: "another version")
    trials.verdict(asked("good", key="a"))
    assert len(list((kept / "verdicts").glob("*.entry"))) == 3


@pytest.mark.test_all
def test_what_hung_is_tried_again_when_there_is_more_time(
    trials: Trials, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", "0.1")
    assert trials.verdict(asked(sleep=1)).outcome == "hung"
    started = trials.worker.started
    assert trials.verdict(asked(sleep=1)).outcome == "hung" and trials.worker.started == started
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", "60")
    assert trials.verdict(asked(sleep=1)).outcome == "ok"


class _Victim(WorkerProcess):
    """A worker that somebody kills in the middle of its first jobs."""

    def __init__(self, worker: WorkerProcess, kills: int) -> None:
        super().__init__(worker._command)
        self.kills = kills

    def ask(self, job, seconds, at_stage=lambda _: None):
        def kill(stage: str) -> None:
            at_stage(stage)
            if self.kills and self.pid:
                self.kills -= 1
                os.kill(self.pid, signal.SIGKILL)

        return super().ask(job, seconds, kill)


@pytest.mark.test_all
def test_a_kill_from_outside_says_nothing_of_the_work(kept: Path) -> None:
    once, always = Trials(_Victim(pretender(), 1)), Trials(_Victim(pretender(), 99))
    assert once.verdict(asked(sleep=0.1)).outcome == "ok", "it is tried a second time"
    with pytest.raises(KernelCrashed, match=r"a kill from outside \(SIGKILL\)"):
        always.pass_or_raise(asked(key="other", sleep=0.1))
    assert len(list((kept / "verdicts").glob("*.entry"))) == 1
    for each in (once, always):
        each.worker.end()


def test_only_kills_from_outside_do_not_last() -> None:
    for code in (-signal.SIGKILL, -signal.SIGTERM):
        assert not Verdict("crashed", reason=ending(code)).lasting
    for code in (-signal.SIGSEGV, -signal.SIGFPE, -signal.SIGABRT, 1):
        assert Verdict("crashed", reason=ending(code)).lasting


def test_switched_off_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER", "off")
    trials = Trials(WorkerProcess(["/nowhere/python"]))
    assert trials.verdict(asked("crash")).outcome == "ok"


@pytest.mark.parametrize("given", ["soon", "0", "-1", "nan"])
def test_a_time_out_that_is_none_is_refused(trials: Trials, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER_TIMEOUT", given)
    with pytest.raises(BadOption, match=f"'{given}' is no time-out"):
        trials.verdict(asked())


def test_a_worker_that_is_expected_is_there_before_it_is_asked(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATEN_WORKBENCH_WORKER", "off")
    trials.expect()
    assert trials.worker.started == 0, "where nothing is tried, nothing starts"
    monkeypatch.delenv("ATEN_WORKBENCH_WORKER")
    trials.expect()
    while trials.worker.pid is None:
        time.sleep(0.01)
    pid = trials.worker.pid
    trials.expect()
    trials.pass_or_raise(asked())
    assert (trials.worker.started, trials.worker.pid) == (1, pid)
