"""The function that computes a kernel: machine code, PyTorch on the host, or a replay of a timeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

KernelFunction: TypeAlias = Callable[[Sequence[torch.Tensor]], None]
"""Reads the first of the tensors, the kernel's inputs, and writes the others, its outputs."""
