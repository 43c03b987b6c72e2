"""Mistakes in what a verb is asked: unknown options, tolerances, dialects, tiles and patterns of kernels."""

from __future__ import annotations

import inspect

import pytest
import torch

import workbench as wb
from tests.flow import flow
from workbench.errors import BadOption, BadRegistration, MappingError, UnknownOption
from workbench.ops.registry import DIALECTS


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def twice(a: torch.Tensor, *, slope: float = 2.0) -> torch.Tensor:
    return a * slope


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    return wb.trace(product, torch.randn(48, 64), torch.randn(64, 32))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            lambda j: wb.trace(twice, torch.randn(3), mapings={}),
            "wb.trace has no option 'mapings'; did you mean 'mapping'",
        ),
        (
            lambda j: wb.trace(twice, torch.randn(3), memory="banked"),
            "it is a figure of a machine: machine=wb.machine('tpu-v3', memory=...). Its options are kwargs, machine",
        ),
        (lambda j: wb.trace(twice, torch.randn(3), slope=1.0), "by name are kwargs={'slope': ...}"),
        (lambda j: j.with_(dma_queues=2), "j.with_ has no option 'dma_queues'; it is a figure of a machine"),
        (lambda j: j.check(tolerance=1), "j.check has no option 'tolerance'"),
        (lambda j: wb.simulate(j.lowered, j.scheduled, second=3), "wb.simulate has no option 'second'; did you mean"),
    ],
)
def test_an_unknown_option_says_what_was_meant(journey: wb.Journey, asked, words: str):
    with pytest.raises(UnknownOption) as caught:
        asked(journey)
    assert words in str(caught.value) and isinstance(caught.value, TypeError)


def test_verbs_keep_their_signatures():
    assert "machine" in inspect.signature(wb.trace).parameters
    assert inspect.signature(wb.Journey.with_).parameters["fusion"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("wrong", [{"rtol": -1}, {"atol": float("nan")}, {"rtol": "1e-3"}, {"atol": True}])
def test_a_tolerance_is_a_number_that_is_not_negative(journey: wb.Journey, wrong: dict[str, float]):
    with pytest.raises(BadOption, match=r"is no tolerance; expected a number, 0 or more"):
        journey.check(**wrong)
    assert journey.check(rtol=0.1, atol=0)


def test_a_builder_builds_with_a_dialect_that_there_is():
    from workbench.mlir.context import new_context

    with pytest.raises(BadRegistration, match=r"dialect='mth' .* none of MLIR's; did you mean 'math'\?"):
        wb.ops.builder("aten.frac.default", dialect="mth")(twice)
    dialects = new_context().dialects
    assert all(dialects[name] is not None for name in DIALECTS)  # which raises for one that is not there
    with pytest.raises(IndexError):
        dialects["mth"]


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"tile": {"m": 49}}, "tile of m = 49, and there are 48. 48 is all of it at once"),
        ({"buffers": 1000}, "buffers = 1,000, and its loops have "),
        ({"order": "mnk"}, "order = 'mnk': expected a list of its dims, outermost first: m (48), n (32), k (64)"),
        ({"order": 3}, "order = 3: expected a list"),
        ({"order": []}, "order = []: expected a list"),
        ({"order": ["m", 1, "n"]}, "order = ['m', 1, 'n']: expected a list"),
    ],
)
def test_what_cannot_be_meant_of_a_kernel_is_an_error(journey: wb.Journey, mapping: dict[str, object], words: str):
    with pytest.raises(MappingError) as caught:
        _ = journey.with_(mapping={"k0_matmul": mapping}).scheduled  # type: ignore[dict-item]
    assert words in str(caught.value)


def test_under_a_pattern_a_tile_is_cut_and_the_reason_says_so(journey: wb.Journey):
    kernel = journey.with_(mapping={"k*_matmul": {"tile": {"m": 4096, "n": 16}}}).scheduled.record.kernels[0]
    assert (kernel.mapping.tile["m"], kernel.mapping.tile["n"]) == (48, 16)
    assert kernel.mapping.reason == "user; m has 48 of the 4,096 asked for"
    many = journey.with_(mapping={"*": {"tile": {"m": 48, "n": 16}, "buffers": 20}}).scheduled.record.kernels[0]
    rounds = -(-64 // many.mapping.tile["k"]) * 2
    assert many.mapping.reason == f"user; its loops have {rounds} rounds, and 20 slots are asked for"
    two = journey.with_(machine=wb.machine("tpu-v3", cores=2), mapping={"*": {"tile": {"m": 48}, "cores": {"m": 2}}})
    assert two.scheduled.record.kernels[0].mapping.reason == "user; m has 24 a core of the 48 asked for"


def test_more_slots_than_rounds_change_no_tile():
    given = [torch.randn(128, 256), torch.randn(256, 512)]
    plain, many = (
        flow(product, given, mapping=mapping).scheduled.kernels[0].mapping
        for mapping in (None, {"*": {"buffers": 100}})
    )
    rounds = -(-512 // plain.tile["n"])
    assert rounds > 2
    assert (many.tile, many.buffers) == (plain.tile, rounds)
    assert many.reason == f"user; its loops have {rounds} rounds, and 100 slots are asked for"


def test_a_pattern_that_others_leave_no_kernel_is_an_error(journey: wb.Journey):
    mapping = {"k?_*": {"buffers": 2}, "k0_*": {"buffers": 1}}
    with pytest.raises(
        MappingError, match=r"'k0_\*': it is for no kernel: k0_matmul goes by 'k\?_\*'.*put 'k0_\*' before"
    ):
        _ = journey.with_(mapping=mapping).scheduled
    with pytest.raises(
        MappingError, match=r"'k0_\*': it is for no kernel: k0_matmul goes by 'k0_matmul'.*leave 'k0_\*' out"
    ):
        _ = journey.with_(mapping={"k0_*": {}, "k0_matmul": {"buffers": 1}}).scheduled
    both = journey.with_(mapping={"*": {"buffers": 1}, "k0_matmul": {"buffers": 2}})  # a star is for what is left
    assert both.scheduled.record.kernels[0].mapping.buffers == 2


def test_patterns_name_several_kernels_names_go_first_and_the_star_last():
    def three(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.softmax((x @ a) @ b, -1)

    given = [torch.randn(64, 64), torch.randn(64, 64), torch.randn(64, 96)]

    def tiles(**mapping: dict[str, object]) -> list[int]:
        made = flow(three, given, mapping=mapping)
        return [next(iter(kernel.mapping.tile.values())) for kernel in made.scheduled.kernels]

    names = [kernel.kernel for kernel in flow(three, given).scheduled.kernels]
    assert [name[:9] for name in names] == ["k0_matmul", "k1_matmul", "k2__softm"] or len(names) == 3
    tile = {size: {"tile": {"m": size}} for size in (8, 16)}
    assert tiles(**{"k?_matmul*": tile[8]})[:2] == [8, 8]
    assert tiles(**{"*": {"buffers": 1}, "k[01]_*": tile[8], names[0]: tile[16]})[:2] == [16, 8]
    with pytest.raises(MappingError, match=r"'k\*_linear': no kernel matches that pattern\. The kernels are k0_"):
        tiles(**{"k*_linear": {}})
