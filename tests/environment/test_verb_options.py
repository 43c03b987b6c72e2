"""Mistakes in what a verb is asked: unknown options, tolerances, dialects, tiles and patterns of kernels."""

from __future__ import annotations

import inspect
import re

import pytest
import torch

import workbench as wb
from simulator.errors import DoesNotFit
from tests.flow import flow
from workbench.ground.errors import BadOption, BadRegistration, MappingError, UnknownOption
from workbench.operators.aten.registry import DIALECTS


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
        (
            lambda j: wb.trace(twice, torch.randn(3), slope=1.0),
            "give keyword arguments of the function as kwargs={'slope': ...}",
        ),
        (lambda j: j.with_(dma_queues=2), "j.with_ has no option 'dma_queues'; it is a figure of a machine"),
        (lambda j: j.check(tolerance=1), "j.check has no option 'tolerance'"),
        (lambda j: wb.simulate(j.lowered, j.scheduled, second=3), "wb.simulate has no option 'second'; did you mean"),
        (
            lambda j: j.simulated.plot(critcal=True),
            "j.simulated.plot has no option 'critcal'; did you mean 'critical'?",
        ),
        (lambda j: j.simulated.text(widht=60), "j.simulated.text has no option 'widht'; did you mean 'width'?"),
        (lambda j: j.captured.html(width=60), "j.captured.html has no option 'width'. It takes none"),
        (lambda j: j.rendered.kernels[0].text(selct=1), "RenderedKernel.text has no option 'selct'; did you mean"),
        (lambda j: wb.compare(j, j).plot(stile="dark"), "Comparison.plot has no option 'stile'; did you mean 'style'?"),
        (lambda j: wb.compare(a=j, b=j), "has no option 'a'; names of journeys are an option: wb.compare(j, k, names="),
    ],
)
def test_an_unknown_option_says_what_was_meant(journey: wb.Journey, asked, words: str):
    with pytest.raises(UnknownOption) as caught:
        asked(journey)
    assert words in str(caught.value) and isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda j: [j, j], "type 'list'; give the journeys one by one: wb.compare(*those)"),
        (
            lambda j: {"a": j},
            "type 'dict'; give the journeys one by one: wb.compare(*those.values(), names=list(those))",
        ),
        (lambda j: j.simulated, "type 'Simulated'; give journeys, the results of wb.trace and wb.load"),
    ],
)
def test_a_comparison_of_what_is_no_journey_says_how_it_is_asked(journey: wb.Journey, given, words: str):
    with pytest.raises(BadOption) as caught:
        wb.compare(given(journey))
    assert words in str(caught.value)


def test_a_machine_is_made_of_another_one(journey: wb.Journey):
    made = wb.machine(journey.machine, vector_lanes=64)
    assert made == wb.machine("tpu-v3", vector_lanes=64) and wb.machine(made) == made
    assert wb.machine("tpu-v3", name="x").name == "x"
    with pytest.raises(BadOption, match=r"machine must be a name of wb\.machines\(\).*, got None"):
        wb.machine(None)


def test_verbs_keep_their_signatures():
    assert "machine" in inspect.signature(wb.trace).parameters
    assert inspect.signature(wb.Journey.with_).parameters["fusion"].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("wrong", [{"rtol": -1}, {"atol": float("nan")}, {"rtol": "1e-3"}, {"atol": True}])
def test_a_tolerance_is_a_number_that_is_not_negative(journey: wb.Journey, wrong: dict[str, float]):
    with pytest.raises(BadOption, match=r"tol must be a finite number, 0 or more"):
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
        ({"tile": {"m": 49}}, "tile of m = 49, but the dim has 48: 48 is the whole dim"),
        ({"buffers": 1000}, "buffers = 1,000, and its loops have "),
        ({"order": ["m", "n"]}, "must name each of its dims once: m (48), n (32), k (64)"),
        ({"order": []}, "must name each of its dims once: m (48), n (32), k (64)"),  # which suits one without dims
        ({"cores": {"m": 2}}, "takes 2 cores, the machine has 1"),
    ],
)
def test_what_does_not_suit_a_kernel_says_where_it_was_given(
    journey: wb.Journey, mapping: dict[str, object], words: str
):
    here = f"{__file__}:{inspect.currentframe().f_lineno + 1}"  # type: ignore[union-attr]
    asked = journey.with_(mapping={"k0_matmul": mapping})  # type: ignore[dict-item]
    for again in (asked, asked.with_(simulate_seconds=60)):
        with pytest.raises(MappingError) as caught:
            _ = again.scheduled
        assert words in str(caught.value) and str(caught.value).endswith(f"\nmapping= was given at {here}")


def never(x: torch.Tensor) -> torch.Tensor:
    raise AssertionError("captured, although what was asked means nothing")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"mapping": {"*": {"tiles": {}}}}, "of kernel '*': unknown key 'tiles'; did you mean 'tile'? Expected tile, "),
        ({"mapping": {"*": {"slots": 2}}}, "unknown key 'slots'. Expected tile, order, buffers or cores"),
        ({"mapping": {"*": {1: 2}}}, "unknown key 1"),
        ({"mapping": {"*": {"tile": {"m": 0}}}}, "tile of m = 0: expected a whole number, 1 or more"),
        ({"mapping": {"*": {"tile": {"m": -4}}}}, "tile of m = -4: expected a whole number, 1 or more"),
        ({"mapping": {"*": {"tile": {"m": True}}}}, "tile of m = True: expected a whole number"),
        ({"mapping": {"*": {"tile": {"m": 4.0}}}}, "tile of m = 4.0: expected a whole number"),
        ({"mapping": {"*": {"tile": {0: 4}}}}, "tile of 0 = 4: expected the name of a dim"),
        ({"mapping": {"*": {"tile": [64]}}}, "tile = [64]: expected {dim: size}"),
        ({"mapping": {"*": {"buffers": 0}}}, "buffers = 0: expected a whole number of slots, 1 or more"),
        ({"mapping": {"*": {"buffers": "two"}}}, "buffers = 'two': expected a whole number of slots"),
        ({"mapping": {"*": {"cores": 4}}}, "cores = 4: expected {dim: how many}"),
        ({"mapping": {"*": {"cores": {"m": 0}}}}, "cores of m = 0: expected a whole number, 1 or more"),
        ({"mapping": {"*": {"order": "mnk"}}}, "order = 'mnk': expected a list of the kernel's dims, outermost first"),
        ({"mapping": {"*": {"order": 3}}}, "order = 3: expected a list"),
        ({"mapping": {"*": {"order": ["m", 1]}}}, "order = ['m', 1]: expected a list"),
        ({"mapping": {"*": {"order": ["m", "n", "m"]}}}, "each of them once"),
        (
            {"mapping": {"tile": {"m": 64}}},
            "mapping has 'tile' under no kernel; for all of them write it under '*'. Expected {",
        ),
        ({"mapping": {"buffers": 2}}, "mapping has 'buffers' under no kernel"),
        ({"mapping": {"*": 3}}, "mapping must be {kernel_name or '*': "),
        ({"mapping": {0: {}}}, ", got {0: {}}, of type dict"),
        ({"mapping": [1]}, "a file or None, got [1], of type list"),
        ({"resident": "fc.weight"}, "got 'fc.weight', of type str; for one tensor write ['fc.weight']"),
        ({"resident": "atuo"}, "or None, got 'atuo', of type str; did you mean 'auto'?"),
        (
            {"resident": ["fc.weight", 3]},
            "or 'auto', or None, got ['fc.weight', 3]",
        ),
    ],
)
def test_what_means_nothing_is_told_before_anything_is_captured(
    journey: wb.Journey, asked: dict[str, object], words: str
):
    for verb in (
        lambda: wb.trace(never, torch.randn(3), **asked),
        lambda: journey.with_(**asked),
        lambda: wb.schedule(journey.lowered, journey.rendered, **asked),
    ):
        with pytest.raises((BadOption, MappingError)) as caught:
            verb()
        assert words in str(caught.value)


def test_a_kernel_that_is_not_there_is_told_as_soon_as_their_names_are_known(journey: wb.Journey):
    with pytest.raises(MappingError, match=r"no kernel has that name; did you mean 'k0_matmul'\?"):
        journey.with_(mapping={"k0_matmull": {}})
    with pytest.raises(MappingError, match=r"no kernel has that name; did you mean 'k0_matmul'\?"):
        wb.trace(product, torch.randn(8, 8), torch.randn(8, 8), mapping={"k0_matmull": {}})
    later = journey.with_(fusion="none", mapping={"k0_matmull": {}})  # what other kernels there are is not known yet
    with pytest.raises(
        MappingError, match=r"(?s)did you mean 'k0_matmul'.*mapping= was given at .*test_verb_options.py:"
    ):
        _ = later.scheduled


def test_a_mapping_that_does_not_fit_says_where_it_was_given(journey: wb.Journey):
    tiny = journey.with_(machine=wb.machine("tpu-v3", scratchpad_bytes_per_lane=64))
    with pytest.raises(DoesNotFit, match=rf"mapping= was given at {re.escape(__file__)}:"):
        _ = tiny.with_(mapping={"*": {"tile": {"m": 48, "n": 32, "k": 64}}}).scheduled
    with pytest.raises(
        BadOption, match=rf"no tensor 'wieght' in DRAM.*\n?resident= was given at {re.escape(__file__)}:"
    ):
        _ = journey.with_(resident=["wieght"]).scheduled


def test_under_a_pattern_a_tile_is_cut_and_the_reason_says_so(journey: wb.Journey):
    kernel = journey.with_(mapping={"k*_matmul": {"tile": {"m": 4096, "n": 16}}}).scheduled.record.kernels[0]
    assert (kernel.mapping.tile["m"], kernel.mapping.tile["n"]) == (48, 16)
    assert kernel.mapping.reason == "user; the tile of m was cut from 4,096 to 48, the whole dim"
    many = journey.with_(mapping={"*": {"tile": {"m": 48, "n": 16}, "buffers": 20}}).scheduled.record.kernels[0]
    rounds = -(-64 // many.mapping.tile["k"]) * 2
    assert many.mapping.reason == f"user; its loops have {rounds} rounds, and 20 slots were given"
    two = journey.with_(machine=wb.machine("tpu-v3", cores=2), mapping={"*": {"tile": {"m": 48}, "cores": {"m": 2}}})
    assert (
        two.scheduled.record.kernels[0].mapping.reason
        == "user; the tile of m was cut from 48 to 24, a core's part of it"
    )


def test_more_slots_than_rounds_change_no_tile():
    given = [torch.randn(128, 256), torch.randn(256, 1024)]
    plain, many = (
        flow(product, given, mapping=mapping).scheduled.kernels[0].mapping
        for mapping in ({"*": {"tile": {"n": 256}}}, {"*": {"tile": {"n": 256}, "buffers": 100}})
    )
    rounds = -(-1024 // plain.tile["n"])
    assert rounds > 2
    assert (many.tile, many.buffers) == (plain.tile, rounds)
    assert many.reason == f"user; its loops have {rounds} rounds, and 100 slots were given"


def test_a_pattern_that_others_leave_no_kernel_is_an_error(journey: wb.Journey):
    mapping = {"k?_*": {"buffers": 2}, "k0_*": {"buffers": 1}}
    with pytest.raises(MappingError, match=r"'k0_\*': it is never used: k0_matmul takes 'k\?_\*'.*put 'k0_\*' before"):
        _ = journey.with_(mapping=mapping).scheduled
    with pytest.raises(
        MappingError, match=r"'k0_\*': it is never used: k0_matmul takes 'k0_matmul'.*leave 'k0_\*' out"
    ):
        _ = journey.with_(mapping={"k0_*": {}, "k0_matmul": {"buffers": 1}}).scheduled
    both = journey.with_(mapping={"*": {"buffers": 1}, "k0_matmul": {"buffers": 2}})  # a star is for what is left
    assert both.scheduled.record.kernels[0].mapping.buffers == 2


def test_patterns_name_several_kernels_names_go_first_and_the_star_last():
    def three(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.softmax((x @ a) @ b, 0)

    given = [torch.randn(64, 64), torch.randn(64, 64), torch.randn(64, 96)]

    def tiles(**mapping: dict[str, object]) -> list[int]:
        made = flow(three, given, mapping=mapping)
        return [next(iter(kernel.mapping.tile.values())) for kernel in made.scheduled.kernels]

    names = [kernel.kernel for kernel in flow(three, given).scheduled.kernels]
    assert names == ["k0_matmul", "k1_matmul", "k2_softmax"]
    tile = {size: {"tile": {"m": size}} for size in (8, 16)}
    assert tiles(**{"k?_matmul*": tile[8]})[:2] == [8, 8]
    assert tiles(**{"*": {"buffers": 1}, "k[01]_*": tile[8], names[0]: tile[16]})[:2] == [16, 8]
    with pytest.raises(MappingError, match=r"'k\*_linear': no kernel matches that pattern\. The kernels are k0_"):
        tiles(**{"k*_linear": {}})
