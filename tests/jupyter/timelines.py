"""Runs that tests of timelines look at, each made once: small, of one core and of two with banked memory."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

import workbench as wb
from tests.programs import PROGRAMS

NORMS_APART: Any = {"off": ["rows of a product"]}
"""Norms and softmaxes after products have kernels of their own."""


@functools.cache
def softmax() -> wb.Journey:
    return PROGRAMS["softmax_last"].traced()


@functools.cache
def two_cores() -> wb.Journey:
    """Products and passes on two cores: transfers wait on their way, cores meet at barriers."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 128), nn.Softmax(-1)).eval()
    machine = wb.machine("tpu-v3", memory="banked", cores=2)
    return wb.trace(network, torch.randn(256, 256), machine=machine, fusion=NORMS_APART)


@functools.cache
def by_host() -> wb.Journey:
    """A step on the host between two kernels."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(torch.relu(x) + 64 * torch.eye(64)).tanh()

    return wb.trace(function, torch.randn(64, 64))


@functools.cache
def shared() -> wb.Journey:
    """Two equal layers, of which the second runs the programs of the first."""
    layers = (nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 64), nn.LayerNorm(64))
    return wb.trace(nn.Sequential(*layers).eval(), torch.randn(64, 64), fusion=NORMS_APART)


RUNS = {"softmax": softmax, "two cores, banked": two_cores, "a step on the host": by_host, "shared": shared}
