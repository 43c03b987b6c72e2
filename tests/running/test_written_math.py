"""exp, erf and tanh written as arithmetic: as exact as they say, at every level of processor that takes them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.mlir.modules import rendered
from workbench.ground.environment.processor import available, processor_named
from workbench.running.jit import compile_rendered
from workbench.running.machine_code import needed_symbols, object_of

FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "exp": (torch.exp, 0.9),
    "erf": (torch.erf, 1.0),
    "tanh": (torch.tanh, 1.9),
}
"""Each with its largest error in units in the last place, as `workbench/running/written_math.py` states it."""


def numbers() -> torch.Tensor:
    """Dense where the functions bend, near zero, and of all sizes."""
    generator = torch.Generator().manual_seed(0)
    sizes = 10 ** (torch.rand(2**18, generator=generator) * 85 - 45)
    signs = torch.randn(2**18, generator=generator).sign()
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 88.72283, 88.73, -103.97, -104.0, 1e-45, 3e38])
    return torch.cat([torch.linspace(-104, 89, 2**20), torch.linspace(-6, 6, 2**20), sizes * signs, special])


def units(found: torch.Tensor, true: torch.Tensor) -> float:
    """The largest error, in the unit of the true result."""
    finite = true.isfinite() & (true.abs() < 3.4028235e38)
    unit = np.spacing(true[finite].float().abs().numpy()).astype(np.float64)
    return float(np.max(np.abs(found[finite].double().numpy() - true[finite].numpy()) / unit))


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("level", ["native", "x86-64-v3"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_as_stated_and_special_numbers_as_in_pytorch(name: str, level: str) -> None:
    if level not in ("native", *available()):
        pytest.skip(f"this processor is no {level}")
    function, bound = FUNCTIONS[name]
    x = numbers()
    out = torch.empty_like(x)
    compile_rendered(rendered(function, [x], [out]), "k", processor_named(level))([x, out])
    true = function(x.double())
    assert units(out, true) <= bound
    wild = ~true.float().isfinite() | (x == 0)
    assert torch.equal(out[wild].isnan(), true[wild].isnan())
    assert torch.equal(out[wild].nan_to_num(7.0), true[wild].float().nan_to_num(7.0))
    assert torch.equal(out[x == 0].signbit(), true[x == 0].signbit())


def test_no_call_is_left_where_multiplications_fuse() -> None:
    """On a processor that fuses them; one that does not calls the C library."""
    x = torch.randn(256, 256)
    for level, called in (("x86-64-v3", False), ("x86-64-v2", True)):
        if level in available():
            kernel = compile_rendered(rendered(torch.exp, [x], [x]), "k", processor_named(level))
            needed = needed_symbols(object_of(kernel._code.engine))
            assert ("expf" in needed) is called, (level, needed)
