"""A rendered kernel that is kept is the one that would be made again, and whatever changes that one misses it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch_mlir.dialects import arith

import workbench as wb
from workbench.rendering import module_store, render, write_templates


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were rendered and written since, with a folder of its own for what is kept."""
    monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", str(tmp_path))
    seen: list[str] = []
    for owner, name in ((render.KernelRendering, "module"), (write_templates, "_written")):
        monkeypatch.setattr(owner, name, counting(seen, name, getattr(owner, name)))
    return seen


def counting(seen: list[str], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*given: Any) -> Any:
        seen.append(name)
        return real(*given)

    return counted


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def where(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, x * x).cumsum(0)


SHAPES = {attention: ((2, 64, 16),) * 3, where: ((24, 40),)}


def traced(function: Callable[..., Any], machine: str = "tpu-v3", **options: Any) -> wb.Journey:
    inputs = [torch.randn(shape) for shape in SHAPES[function]]
    return wb.trace(function, *inputs, machine=machine, **options)


@pytest.mark.parametrize("function", list(SHAPES))
def test_texts_and_cycles_are_the_same(function: Callable[..., Any], made: list[str]):
    first = traced(function)
    assert first.rendered.record
    before = len(made)
    again = traced(function)
    assert again.rendered.record == first.rendered.record
    assert len(made) == before > 0
    assert again.rendered.text() == first.rendered.text()
    assert again.scheduled.text() == first.scheduled.text()
    assert again.simulated.cycles == first.simulated.cycles
    assert again.check().ok


def test_a_templates_text_is_written_anew_for_another_machine_and_mapping(made: list[str]):
    first = traced(attention)
    assert first.rendered.record
    assert made == ["module", "_written"]
    other = traced(attention, "tpu-v4")
    assert other.rendered.record[0].written != first.rendered.record[0].written
    assert made == ["module", "_written", "_written"]
    tile = {"*": {"buffers": 1}}
    assert traced(attention, mapping=tile).rendered.record[0] != first.rendered.record[0]
    assert made == ["module", *["_written"] * 3]
    for journey in (traced(attention, "tpu-v4"), traced(attention, mapping=tile)):
        assert journey.rendered.record
    assert len(made) == 4


def test_another_version_is_made_anew(made: list[str], monkeypatch: pytest.MonkeyPatch):
    assert traced(where).rendered.record
    before = len(made)
    monkeypatch.setattr(module_store, "made_by", lambda: "another")
    assert traced(where).rendered.record
    assert len(made) == 2 * before


def test_another_structure_is_made_anew(made: list[str]):
    x = torch.randn(8, 8)
    texts = [wb.trace(lambda x, by=by: x * by, x).rendered.text() for by in (2.0, 3.0, 2)]
    assert len(made) == 3
    assert len({text.replace("\n", " ") for text in texts}) >= 2
    assert wb.trace(lambda x: x * 2.0, x.double()).rendered.record
    assert len(made) == 4


def test_what_a_user_registers_is_asked_each_time(made: list[str], tmp_path: Path):
    x = torch.randn(8, 8)
    plain = wb.trace(torch.hypot, x, x).rendered.text()
    kept = len(list(tmp_path.glob("modules/*")))
    for combined, name in ((arith.addf, "arith.addf"), (arith.subf, "arith.subf")):
        with wb.ops.scope():

            @wb.ops.builder("aten.hypot.default", dialect="arith", kind="elementwise")
            def hypot(op: Any, combined: Any = combined) -> Any:
                return op.elementwise(combined, *op.operands)

            assert name in wb.trace(torch.hypot, x, x).rendered.text()
    assert len(list(tmp_path.glob("modules/*"))) == kept
    assert wb.trace(torch.hypot, x, x).rendered.text() == plain


def test_a_damaged_entry_counts_as_absent(made: list[str], tmp_path: Path):
    first = traced(where).rendered.record
    before = len(made)
    for entry in tmp_path.glob("modules/*"):
        entry.write_bytes(entry.read_bytes()[:-5])
    assert traced(where).rendered.record == first
    assert len(made) == 2 * before


def test_an_entry_that_says_something_else_counts_as_absent(made: list[str], monkeypatch: pytest.MonkeyPatch):
    first = traced(where).rendered.record
    before = len(made)
    for number, text in enumerate((b"", b"\x78\x9c", zlib.compress(b"{}")), 2):
        monkeypatch.setattr(module_store.Store, "get", lambda *_, text=text: text)
        assert traced(where).rendered.record == first
        assert len(made) == number * before


def test_the_same_kernel_elsewhere_has_its_own_names(made: list[str]):
    x = torch.randn(8)
    first = wb.trace(lambda x: torch.exp(torch.sin(x)), x, fusion="none").rendered.record
    assert len(made) == 2
    again = wb.trace(lambda given: torch.sin(torch.exp(given)), x, fusion="none").rendered.record
    assert len(made) == 2
    for module, other in zip(again, reversed(first), strict=True):
        assert f"@{module.kernel}(" in module.mlir
        assert f"@{module.kernel}(" in module.located
        assert module.kernel != other.kernel
        assert module.origins == other.origins
        assert module.mlir == other.mlir.replace(other.kernel, module.kernel)
