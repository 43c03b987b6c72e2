"""Products of tiles as calls of a BLAS: which are, with right numbers, and which stay loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch.nn import functional

import workbench as wb
from tests.mlir.examples import tiled_matmul
from tests.mlir.modules import rendered
from workbench.ground.environment import blas_library
from workbench.ground.environment.blas_library import SGEMM, blas
from workbench.ground.environment.processor import available, processor, processor_named
from workbench.ground.errors import BadOption
from workbench.running.jit import NativeKernel, compile_rendered, compile_scheduled, unpack
from workbench.running.machine_code import needed_symbols, object_of, target

needs_blas = pytest.mark.skipif(blas(processor()) is None, reason="scipy-openblas32 has no library for this system")


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def calls(kernel: NativeKernel) -> bool:
    return SGEMM in needed_symbols(object_of(kernel._code.engine))


def computed(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> NativeKernel:
    """The kernel of a function, once its numbers are found to be PyTorch's."""
    expected = function(*inputs)
    out = torch.full_like(expected, torch.nan if expected.is_floating_point() else 99)
    kernel = compile_rendered(rendered(function, inputs, [out]), "k")
    kernel([*inputs, out])
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-4)
    return kernel


@pytest.mark.test_all(but=11)
@needs_blas
@pytest.mark.parametrize("a_t", [False, True])
@pytest.mark.parametrize("b_t", [False, True])
@pytest.mark.parametrize("tile", [(32, 32, 16), (129, 61, 56), (129, 61, 1), (1, 61, 56), (64, 1, 56)])
def test_tiles_of_any_form_and_of_unknown_extents(a_t: bool, b_t: bool, tile: tuple[int, int, int]) -> None:
    kernel = compile_scheduled(tiled_matmul(129, 61, 56, tile, a_t=a_t, b_t=b_t), "matmul")
    a, b, out = random(129, 56), random(56, 61), torch.full((129, 61), torch.nan)
    kernel([a.t().contiguous() if a_t else a, b.t().contiguous() if b_t else b, out])
    torch.testing.assert_close(out, a @ b, rtol=1e-5, atol=1e-5)
    if 1 not in tile:
        assert calls(kernel)


CALLED: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "batches": (torch.bmm, (random(3, 20, 30), random(3, 30, 40))),
    "transposed": (torch.mm, (random(30, 40).t(), random(50, 30).t())),
    "a column": (torch.mm, (random(70, 80), random(80, 1))),
    "a row": (torch.mm, (random(1, 80), random(80, 70))),
    "every second row": (torch.mm, (random(80, 40)[::2], random(40, 60))),
    "every second column": (torch.mm, (random(40, 80)[:, ::2], random(40, 60))),
}


@needs_blas
@pytest.mark.parametrize("name", CALLED)
def test_products_of_f32_are_called(name: str) -> None:
    function, inputs = CALLED[name]
    assert calls(computed(function, *inputs))


WINDOWS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "window": (functional.conv2d, (random(2, 8, 14, 14), random(16, 8, 3, 3))),
    "channels last": (
        functional.conv2d,
        tuple(
            each.contiguous(memory_format=torch.channels_last) for each in (random(1, 16, 9, 9), random(24, 16, 3, 3))
        ),
    ),
    "stride": (lambda x, w: functional.conv2d(x, w, stride=2), (random(1, 32, 15, 15), random(32, 32, 3, 3))),
    "dilation": (lambda x, w: functional.conv2d(x, w, dilation=2), (random(1, 32, 15, 15), random(32, 32, 3, 3))),
    "groups": (lambda x, w: functional.conv2d(x, w, groups=2), (random(1, 32, 12, 12), random(32, 16, 3, 3))),
    "one place": (functional.conv2d, (random(2, 32, 8, 8), random(48, 32, 1, 1))),
    "along one axis": (functional.conv1d, (random(2, 32, 40), random(24, 32, 5))),
}


@pytest.mark.test_all
@needs_blas
@pytest.mark.parametrize("name", WINDOWS)
def test_each_place_of_a_scheduled_window_is_called(name: str) -> None:
    function, inputs = WINDOWS[name]
    j = wb.trace(function, *inputs)
    assert j.check().ok
    assert any(calls(compile_scheduled(each.mlir, each.name)) for each in j.scheduled.kernels)


LOOPS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "doubles": (torch.mm, (random(40, 40).double(), random(40, 40).double())),
    "whole numbers": (torch.mm, (random(40, 40).int(), random(40, 40).int())),
    "few terms": (torch.mm, (random(8, 8), random(8, 8))),
    "a sum of squares": (lambda x: (x * x).sum(-1), (random(200, 200),)),
    "a channel by itself": (
        lambda x, w: functional.conv2d(x, w, groups=32),
        (random(1, 32, 12, 12), random(32, 1, 3, 3)),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_other_products_are_loops(name: str) -> None:
    function, inputs = LOOPS[name]
    assert not calls(computed(function, *inputs))


def test_rows_that_overlap_are_never_handed_over() -> None:
    """The library would refuse them, and compute nothing."""
    x = random(200).as_strided((64, 64), (1, 1))
    computed(torch.mm, x, random(64, 64))
    computed(torch.mm, random(64, 64), x)
    computed(torch.mm, random(200).as_strided((64, 64), (2, 1)), random(64, 64))


def test_special_numbers_come_through() -> None:
    a, b = random(40, 40), random(40, 40)
    a[3, 4], b[5, 6], a[7, 5] = torch.nan, torch.inf, 0.0
    out = torch.empty(40, 40)
    compile_rendered(rendered(torch.mm, [a, b], [out]), "k")([a, b, out])
    torch.testing.assert_close(out, a @ b, rtol=1e-5, atol=1e-4, equal_nan=True)


def product() -> tuple[NativeKernel, str]:
    inputs = [random(40, 40), random(40, 40)]
    return compile_rendered(rendered(torch.mm, inputs, inputs[:1]), "k"), target()


@needs_blas
def test_the_switch_and_a_lesser_processor_give_loops_and_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, key = product()
    assert calls(kernel) and "scipy-openblas32" in key
    monkeypatch.setenv("ATEN_WORKBENCH_BLAS", "off")
    kernel, without = product()
    assert not calls(kernel) and without != key
    monkeypatch.setenv("ATEN_WORKBENCH_BLAS", "mkl")
    with pytest.raises(BadOption, match=r"ATEN_WORKBENCH_BLAS='mkl'; expected on or off"):
        product()
    monkeypatch.delenv("ATEN_WORKBENCH_BLAS")
    for level in available():
        assert blas(processor_named(level)) is None


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(blas_library, "PACKAGE", "scipy-openblas32-that-nobody-has")
    blas_library._loaded.cache_clear()
    yield
    blas_library._loaded.cache_clear()


@pytest.mark.test_all
def test_without_the_package_products_are_loops(no_package: None) -> None:
    kernel, key = product()
    assert not calls(kernel) and key.endswith("no BLAS")
    j = wb.trace(torch.mm, random(40, 40), random(40, 40))
    assert j.check().ok


@needs_blas
def test_kept_code_calls_the_library_of_its_process() -> None:
    kernel, _ = product()
    data = kernel.pack()
    assert data
    kept = unpack(data, "k")
    assert kept
    a, b, out, again = random(40, 40), random(40, 40), torch.empty(40, 40), torch.empty(40, 40)
    kernel([a, b, out])
    kept([a, b, again])
    assert torch.equal(out, again)
