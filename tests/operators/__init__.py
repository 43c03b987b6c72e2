"""Operators of real networks, with the calls that each is tested with."""

from __future__ import annotations

from tests.operators import moving_cases, number_cases, window_cases
from tests.operators.entry import Operator

OPERATORS: dict[str, Operator] = window_cases.OPERATORS | moving_cases.OPERATORS | number_cases.OPERATORS
