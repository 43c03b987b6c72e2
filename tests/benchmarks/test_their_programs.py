"""The forms that the measured chips' compilers give to work: what they move is what is documented, to the byte."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest
import torch

import workbench as wb

if TYPE_CHECKING:
    from compiled_workloads import Both

SMALL = (
    *("add_3x64", "mul_192", "sub_2x8x8", "div_64", "relu_64", "tanh_8x64", "sigmoid_64"),
    *("gemm_16x32x8", "conv_1x6x6x8x16x3x1x1", "softmax_16x64", "layernorm_16x64", "rmsnorm_16x64"),
    *("batchnorm_2x8x8x16", "maxpool_1x8x8x8x3x2x1", "avgpool_1x8x8x8x2x2x0", "attention_2x16x8"),
)


@cache
def programs(name: str, unit: str, dtype: str) -> Both:
    from compiled_workloads import both
    from measured_tables import KINDS, Row

    (kind,) = (each for each in KINDS if each.unit == unit)
    return both(Row(name, 1), kind, wb.machine(kind.machine), dtype)


def asked_bytes(name: str, unit: str, dtype: str, *, whose: str = "theirs") -> int:
    """The bytes of DRAM that a program needs, as simulated."""
    machine = wb.machine("tpu-v3" if unit == "cycles" else "tpu-v4-chip")
    counters = getattr(programs(name, unit, dtype), whose).on(machine).counters
    return counters["dram_read_bytes"] + counters["dram_write_bytes"]


@pytest.mark.test_all
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize(
    ("machine", "unit", "dtype"),
    [("tpu-v3", "cycles", "f32"), ("tpu-v4-chip", "us", "f16"), ("tpu-v4-chip", "us", "bf16")],
)
@pytest.mark.parametrize("name", SMALL)
def test_every_family_is_simulated_on_both_chips(name: str, machine: str, unit: str, dtype: str) -> None:
    found = programs(name, unit, dtype)
    for program in (found.ours, found.theirs):
        trace = program.on(wb.machine(machine))
        trace.invariants()
        assert trace.makespan > 0 and trace.counters["dram_read_bytes"] + trace.counters["dram_write_bytes"] > 0


@pytest.mark.test_all
def test_a_copy_writes_no_dram() -> None:
    assert asked_bytes("copy_64x256", "us", "f16") == 64 * 256 * 2
    counters = programs("copy_64x256", "us", "f16").theirs.on(wb.machine("tpu-v4-chip")).counters
    assert counters["common_write_bytes"] == 64 * 256 * 2 and not counters["dram_write_bytes"]


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    ("name", "result"), [("copy_64x64", "f32"), ("copy_1x2048", ""), ("copy_2048x1", ""), ("copy_1x1", "")]
)
def test_copies_of_one_row_and_of_another_type_are_copies(name: str, result: str) -> None:
    from compiled_workloads import both
    from measured_tables import MICROSECONDS, Row

    machine = wb.machine("tpu-v4-chip")
    found = both(Row(name, 1, output_dtype=result), MICROSECONDS, machine, "f16")
    assert (
        found.theirs.on(machine).counters["dram_read_bytes"] == found.ours.on(machine).counters["dram_read_bytes"] > 0
    )


ROWS, COLUMNS = 64, 256


@pytest.mark.test_all
def test_softmax_of_tpu_v3_is_four_passes() -> None:
    x, per_row = ROWS * COLUMNS * 4, ROWS * 4
    maximum, total, quotient = x + per_row, x + 2 * per_row, 2 * x + 2 * per_row
    assert asked_bytes(f"softmax_{ROWS}x{COLUMNS}", "cycles", "f32") == maximum + total + quotient
    assert asked_bytes(f"softmax_{ROWS}x{COLUMNS}", "cycles", "f32", whose="ours") == 2 * x
    assert len(programs(f"softmax_{ROWS}x{COLUMNS}", "cycles", "f32").theirs.launches) == 3


@pytest.mark.test_all
def test_layer_norm_of_tpu_v3_is_six_passes() -> None:
    name, x, per_row, per_column = f"layernorm_{ROWS}x{COLUMNS}", ROWS * COLUMNS * 4, ROWS * 4, COLUMNS * 4
    mean, variance, normal, scaled = x + per_row, x + 2 * per_row, 2 * x + 2 * per_row, 2 * x + 2 * per_column
    assert asked_bytes(name, "cycles", "f32") == mean + variance + normal + scaled
    assert len(programs(name, "cycles", "f32").theirs.launches) == 4


@pytest.mark.test_all
def test_attention_of_tpu_v3_is_three_passes_over_the_scores() -> None:
    heads, sequence, depth = 2, 64, 32
    scores, operand, sums = heads * sequence * sequence * 4, heads * sequence * depth * 4, heads * sequence * 4
    name = f"attention_{heads}x{sequence}x{depth}"
    assert asked_bytes(name, "cycles", "f32") == 3 * scores + 4 * operand + 2 * sums
    assert asked_bytes(name, "cycles", "f32", whose="ours") == 4 * scores + 4 * operand


@pytest.mark.test_all
@pytest.mark.parametrize(("dtype", "size"), [("f32", 4), ("f16", 2), ("bf16", 2)])
def test_norms_of_tpu_v4(dtype: str, size: int) -> None:
    x, per_row, per_column = ROWS * COLUMNS * size, ROWS * size, COLUMNS * size
    both_cores = 2 * 2 * per_column  # each reads weight and bias
    layer, root = f"layernorm_{ROWS}x{COLUMNS}", f"rmsnorm_{ROWS}x{COLUMNS}"
    assert asked_bytes(layer, "us", dtype) == 3 * x + 2 * per_row + both_cores
    assert asked_bytes(root, "us", dtype) == 2 * x + 2 * per_column
    assert len(programs(layer, "us", dtype).theirs.launches) == 2
    assert len(programs(root, "us", dtype).theirs.launches) == 1


@pytest.mark.test_all
def test_elementwise_work_of_tpu_v4_is_one_kernel() -> None:
    for name, passes in (("add_64x128", 3), ("mul_64x128", 3), ("relu_64x128", 2), ("sigmoid_64x128", 2)):
        assert asked_bytes(name, "us", "f16") == passes * 64 * 128 * 2
        assert len(programs(name, "us", "f16").theirs.launches) == 1
    image = 2 * 8 * 8 * 128
    assert 0 <= asked_bytes("batchnorm_2x8x8x128", "us", "f16") - image * (2 + 4) <= 2 * 2 * 8 * 4


@pytest.mark.test_all
def test_documented_passes_are_those_that_are_simulated() -> None:
    for name, unit in (("softmax_64x256", "cycles"), ("layernorm_64x256", "cycles"), ("layernorm_64x256", "us")):
        found = programs(name, unit, "f32")
        assert found.form is not None
        documented = found.form.asked_bytes(found.theirs.operand_bytes, found.theirs.result_bytes)
        assert documented == pytest.approx(asked_bytes(name, unit, "f32"), rel=0.02)


@pytest.mark.parametrize("name", ["softmax_4x6", "layernorm_4x6", "attention_2x8x4", "bert_base"])
def test_their_form_is_the_same_work(name: str) -> None:
    from measured_tables import CYCLES
    from their_programs import theirs
    from workloads import workload

    given, form = workload(name), theirs(CYCLES, name)
    assert form is not None and form.rewritten is not None
    rewritten = form.rewritten(given)
    assert rewritten.function is not given.function
    with torch.no_grad():
        torch.testing.assert_close(
            rewritten.function(*given.inputs), given.function(*given.inputs), rtol=1e-3, atol=1e-4
        )


def test_what_is_not_known_is_ours() -> None:
    from measured_tables import CYCLES, MICROSECONDS
    from their_programs import theirs

    assert theirs(CYCLES, "gemm_8x8x8") is None and theirs(MICROSECONDS, "gemm_8x8x8") is None
    found = programs("gemm_16x32x8", "cycles", "f32")
    assert found.theirs is found.ours
