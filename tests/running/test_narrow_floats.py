"""f16 and bf16 without instructions for them: every bit of every conversion is PyTorch's, on every processor."""

from __future__ import annotations

import pytest
import torch

from tests.mlir.modules import rendered
from workbench.ground.environment.processor import available, processor_named
from workbench.running.jit import compile_rendered

PROCESSORS = [*available(), "native"]
NARROW = [torch.float16, torch.bfloat16]
SOME = 1_000_000


def cast(x: torch.Tensor, dtype: torch.dtype, name: str) -> torch.Tensor:
    """By a kernel for the processor of that name."""
    out = torch.empty(x.shape, dtype=dtype)
    compile_rendered(rendered(lambda x: x.to(dtype), [x], [out]), "k", processor_named(name))([x, out])
    return out


def every(dtype: torch.dtype) -> torch.Tensor:
    """Every value of a 16-bit type, NaN of every kind included."""
    return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)


def near_midpoints(dtype: torch.dtype) -> torch.Tensor:
    """Every f32 halfway between two neighbours of a type, the f32 next to it on either side, and a million others."""
    values = every(dtype).double()
    values = values[values.isfinite()].unique()
    step = values[-1] - values[-2]
    beyond = torch.stack([values[-1] + step / 2, -values[-1] - step / 2])
    middle = torch.cat([(values[1:] + values[:-1]) / 2, beyond]).float()
    near = [torch.nextafter(middle, torch.full_like(middle, side)) for side in (-torch.inf, torch.inf)]
    bits = torch.randint(-(1 << 31), 1 << 31, (SOME,), generator=torch.Generator().manual_seed(0), dtype=torch.int64)
    special = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, -torch.nan, 1e-45, -1e-45, 3.4e38, -3.4e38])
    return torch.cat([middle, *near, values.float(), special, bits.to(torch.int32).view(torch.float32)])


def assert_same_bits(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Not of NaN, of which there are many."""
    assert torch.equal(ours.isnan(), theirs.isnan())
    word = {2: torch.int16, 4: torch.int32, 8: torch.int64}[ours.itemsize]
    wrong = (ours.view(word) != theirs.view(word)) & ~theirs.isnan()
    assert not wrong.any(), (int(wrong.sum()), ours[wrong][:4], theirs[wrong][:4])


@pytest.mark.test_all(but=6)
@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_every_narrow_value_widens_to_itself(dtype: torch.dtype, name: str):
    for wide in (torch.float32, torch.float64):
        assert_same_bits(cast(every(dtype), wide, name), every(dtype).to(wide))


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_an_f32_goes_to_the_nearest_narrow_value(dtype: torch.dtype, name: str):
    given = near_midpoints(dtype)
    assert_same_bits(cast(given, dtype, name), given.to(dtype))


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_double_or_a_long_goes_where_pytorch_sends_it(dtype: torch.dtype, name: str):
    """By way of f32, so that just above a midpoint of the narrow type may be that midpoint."""
    middle = near_midpoints(dtype)[: 1 << 16].double()
    given = torch.cat([middle, middle * (1 + 2**-40), middle * (1 - 2**-40), torch.tensor([1e300, -1e300, 1e-300])])
    assert_same_bits(cast(given, dtype, name), given.to(dtype))
    whole = torch.tensor([0, 1, -1, 2**24 + 2**16 + 1, 2**40 + 2**32 + 1, 2049, 65519, 65520, -(2**63), 2**63 - 1])
    assert_same_bits(cast(whole, dtype, name), whole.to(dtype))


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_one_narrow_type_becomes_the_other(dtype: torch.dtype, name: str):
    (other,) = [each for each in NARROW if each is not dtype]
    assert_same_bits(cast(every(dtype), other, name), every(dtype).to(other))
