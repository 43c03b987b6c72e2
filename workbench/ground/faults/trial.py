"""Trials: native work that may end its process is tried in a worker, and the verdict is remembered."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from workbench.ground import errors
from workbench.ground.environment.disk_store import is_off, made_by, user_store
from workbench.ground.environment.progress import waiting
from workbench.ground.faults.messages import Message
from workbench.ground.faults.worker_process import Died, Overdue, WorkerProcess, ending

OK, FAILED, CRASHED, HUNG, OVERRAN = "ok", "failed", "crashed", "hung", "overran"

_SWITCH: Final = "ATEN_WORKBENCH_WORKER"
_TIMEOUT: Final = "ATEN_WORKBENCH_WORKER_TIMEOUT"
_DEFAULT_SECONDS: Final = 120.0
"""The default time-out: a hundred times the longest kernel of the tests, and the longest that a user waits."""

_STORE_BYTES: Final = 8 << 20
_FROM_OUTSIDE: Final = (-9, -15)
"""Signals that no kernel raises by itself: a user, or a system without memory, killed the worker. They say nothing
about the kernel, so they are not remembered, and the work is tried once more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a trial."""

    outcome: str
    """ok; failed: it raised an ordinary exception; crashed; hung; overran: it wrote outside its memory."""
    stage: str = ""
    """The step of the work: import, schedule, read, compile, run."""
    reason: str = ""
    """The end of the process, the exception, or the wrong write, in words."""
    said: str = ""
    """The output of native code on stderr."""
    seconds: float = 0.0
    """The seconds that this process waited, for a hung trial."""

    @property
    def harmless(self) -> bool:
        """True if the same work can be done in this process: it may raise, but returns."""
        return self.outcome in (OK, FAILED)

    @property
    def lasting(self) -> bool:
        """True if the work itself is the cause, and not a kill from outside."""
        return self.outcome != CRASHED or not any(self.reason == ending(code) for code in _FROM_OUTSIDE)


@dataclass(frozen=True)
class Trial:
    """Work for a worker: its kind, its key, and its material."""

    kind: str
    key: str
    """A key that is equal for equal work; it includes the processor if machine code runs. Versions are added to it."""
    material: Callable[[], Message]
    """Makes the material of the work; called only when the work has to be done."""
    kernel: str
    nodes: Sequence[str]
    """The kernel's nodes, for messages: `aten.mm.default at model.py:12`."""


class Trials:
    """Verdicts of this process, and the worker that makes them. Both end with the process."""

    def __init__(self, worker: WorkerProcess | None = None) -> None:
        self.worker = worker or WorkerProcess()
        self.inside = False
        """True in a worker, which does all work without a trial."""
        self._known: dict[str, Verdict] = {}

    def verdict(self, trial: Trial) -> Verdict:
        """The verdict on the work: the remembered one, or that of a trial now."""
        if self.off():
            return Verdict(OK)
        key = _versioned(trial)
        allowed = seconds_allowed()
        known = self._known.get(key) or _kept(key)
        if known is None or (known.outcome == HUNG and known.seconds < allowed):
            known = self._found(trial, allowed)
            if not known.lasting:
                known = self._found(trial, allowed)
            if known.lasting:
                _keep(key, known)
        if known.lasting:
            self._known[key] = known
        return known

    def remembers(self, trial: Trial) -> bool:
        """True if this process needs no trial: it has a harmless verdict, or trials are off."""
        known = self._known.get(_versioned(trial))
        return self.off() or (known is not None and known.harmless)

    def expect(self) -> None:
        """Starts the worker in the background, since it will be needed soon and takes seconds to start."""
        if not self.off() and self.worker.pid is None:
            threading.Thread(target=self._start, name="start of the worker", daemon=True).start()

    def _start(self) -> None:
        with contextlib.suppress(errors.WorkerUnavailable):  # the next trial raises it
            self.worker.start()

    def off(self) -> bool:
        """True if work is done without a trial."""
        return self.inside or is_off(_SWITCH)

    def pass_or_raise(self, trial: Trial) -> None:
        """Returns when the work can be done in this process, and raises an error with the verdict when it cannot."""
        verdict = self.verdict(trial)
        if not verdict.harmless:
            raise error_of(verdict, trial)

    def _found(self, trial: Trial, allowed: float) -> Verdict:
        stage = trial.kind
        material = trial.material()

        def at_stage(name: str) -> None:
            nonlocal stage
            stage = name

        with waiting(f"try {trial.kernel} in a worker process"):
            answer = self.worker.ask(Message({"kind": trial.kind, **material.body}, material.blocks), allowed, at_stage)
        if isinstance(answer, Died):
            return Verdict(CRASHED, stage, ending(answer.returncode), answer.said)
        if isinstance(answer, Overdue):
            return Verdict(HUNG, stage, f"was not done after {allowed:g} s", answer.said, allowed)
        verdict = Verdict(**answer.body["verdict"])
        if verdict.outcome == OVERRAN:
            self.worker.end()  # the worker's memory may be damaged
        return verdict


TRIALS: Final = Trials()
"""The trials of this process: a worker costs seconds to start, so there is only one."""


def _versioned(trial: Trial) -> str:
    return hashlib.sha256("\0".join([trial.kind, trial.key, made_by()]).encode()).hexdigest()


def seconds_allowed() -> float:
    """The longest time of a trial."""
    given = os.environ.get(_TIMEOUT, "")
    try:
        seconds = float(given or _DEFAULT_SECONDS)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise errors.BadOption(f"{_TIMEOUT}={given!r} is no time-out; expected seconds, more than 0")
    return seconds


def _kept(key: str) -> Verdict | None:
    store = user_store("verdicts", _STORE_BYTES)
    data = store.get(key) if store else None
    return Verdict(**json.loads(data)) if data else None


def _keep(key: str, verdict: Verdict) -> None:
    if store := user_store("verdicts", _STORE_BYTES):
        store.put(key, json.dumps(asdict(verdict)).encode())


def error_of(verdict: Verdict, trial: Trial) -> errors.KernelFault:
    """The error of a bad verdict."""
    kinds = {CRASHED: errors.KernelCrashed, HUNG: errors.KernelHung, OVERRAN: errors.KernelOverran}
    return kinds[verdict.outcome](trial.kernel, tuple(trial.nodes), verdict.stage, verdict.reason, verdict.said)
