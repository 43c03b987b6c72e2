"""Operators of real networks, with the calls that each is tested with."""

from __future__ import annotations

from tests.operators import moving, numbers, windows
from tests.operators.entry import Operator

OPERATORS: dict[str, Operator] = windows.OPERATORS | moving.OPERATORS | numbers.OPERATORS
