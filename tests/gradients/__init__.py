"""Gradients of every family of operators: kernels beside eager PyTorch, and beside differences."""

from __future__ import annotations

from tests.gradients import layer_cases, loss_cases
from tests.gradients.gradient_case import Case

FAMILIES: dict[str, dict[str, Case]] = layer_cases.FAMILIES | loss_cases.FAMILIES
