"""The tile, slots and scratchpad tiles that a template of a user's chooses: nonsense is an error that names it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.ground.errors import TemplateOutputError
from workbench.scheduling.kernels.template import Template, Tile

SOURCE = """
func.func @{{ kernel }}({{ signature }}) {
  affine.for %i = 0 to {{ X.shape[0] }} {
    %x = memref.load %X[%i] : {{ X.memref }}
    %whole = math.trunc %x : {{ X.element }}
    %y = arith.subf %x, %whole : {{ X.element }}
    memref.store %y, %Y[%i] : {{ Y.memref }}
  }
  return
}
"""


def traced(**methods: Callable[..., object]) -> wb.Journey:
    with wb.ops.scope():
        wb.ops.template("aten.frac.default")(type("Frac", (Template,), {"source": SOURCE, **methods}))
        journey = wb.trace(torch.frac, torch.randn(40))
        _ = journey.scheduled
        return journey


def raises(template: Any, machine: Any) -> Any:
    return {}["x"]


MISTAKES: dict[str, tuple[dict[str, Callable[..., object]], str]] = {
    "raises": ({"tile": raises}, r"cannot be made: KeyError: 'x', at .*test_template_mapping.py:\d+ in raises"),
    "leaves": ({"dims": lambda self: sys.exit(3)}, "its default mapping cannot be made: SystemExit: 3, at"),
    "no tiles of dims": ({"tile": lambda self, machine: 7}, r"tile\(\) returned 7; expected the tile of each dim"),
    "no such dim": ({"tile": lambda self, machine: {"zz": 1}}, r"there is no dim 'zz'; its dims are d0"),
    "below one": ({"tile": lambda self, machine: {"d0": -4}}, "the tile of d0 is -4; expected a whole number from 1"),
    "half": ({"tile": lambda self, machine: {"d0": 2.5}}, "the tile of d0 is 2.5; expected a whole number from 1"),
    "slots": ({"buffers": lambda self: "two"}, r"buffers\(\) returned 'two'; expected a whole number from 1"),
    "no slots": ({"buffers": lambda self: 0}, r"buffers\(\) returned 0; expected a whole number from 1"),
    "no mapping": ({"mapping": lambda self, machine: None}, r"mapping\(\) returned None; expected a Mapping"),
    "no tile": ({"tiles": lambda self, mapping: {"a": 3}}, r"tiles\(\) returned {'a': 3}; expected a Tile for each"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_nonsense_is_an_error_that_names_the_template(mistake: str):
    methods, told = MISTAKES[mistake]
    with pytest.raises(TemplateOutputError, match=rf"^template Frac at .*test_template_mapping\.py:\d+: .*{told}"):
        traced(**methods)


def test_whole_numbers_of_numpy_and_tiles_are_taken():
    journey = traced(
        tile=lambda self, machine: {"d0": np.int64(8)}, tiles=lambda self, mapping: {"x": Tile((8,), "f32")}
    )
    assert journey.scheduled.record.kernels[0].mapping.tile == {"d0": 8} and journey.check().ok
