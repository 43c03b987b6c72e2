"""A kernel that is not known to be safe: a worker runs it first, on the same tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from workbench.ground.faults.trial import TRIALS, Trial
from workbench.ir import Kernel
from workbench.operators.tensors.kernel_function import KernelFunction
from workbench.running.guarded_call import Arguments, run_trial
from workbench.running.jit import NativeKernel


@dataclass
class TriedKernel:
    """Gives the kernel itself as soon as a worker came back from it."""

    get: Callable[[], NativeKernel]
    form: str
    text: str
    kernel: Kernel
    nodes: tuple[str, ...]
    passed: bool = False

    def __call__(self) -> KernelFunction:
        return self.get() if self.passed else self._run

    def is_remembered(self) -> bool:
        """True if this process knows that a worker came back from it: then nothing is left to try."""
        self.passed = self.passed or TRIALS.remembers(self._trial(()))
        return self.passed

    def _run(self, tensors: Sequence[torch.Tensor]) -> None:
        TRIALS.pass_or_raise(self._trial(tensors))
        self.passed = True
        self.get()(tensors)

    def _trial(self, tensors: Sequence[torch.Tensor]) -> Trial:
        names = (*self.kernel.inputs, *self.kernel.outputs)
        given = Arguments(names, tensors, len(self.kernel.inputs))
        return run_trial(self.form, self.text, self.kernel.name, self.nodes, given)
