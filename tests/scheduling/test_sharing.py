"""Identical kernels are scheduled and compiled once; every launch keeps its own origins, addresses and name."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch

import workbench as wb
from tests.layers import Attentive, Plain, stack
from workbench.running import jit
from workbench.scheduling import schedule_kernel as scheduling

LAYERS = 12


def layer_of(journey: wb.Journey, node: str) -> int:
    return int(journey.captured.record.node(node).origin.module.split(".")[0])


@pytest.fixture(scope="module", params=[Plain, Attentive], ids=["feed-forward", "attention"])
def journey(request: pytest.FixtureRequest) -> wb.Journey:
    return wb.trace(stack(request.param, LAYERS), torch.randn(24, 32))


def kernels_of_layers(journey: wb.Journey) -> list[list[str]]:
    """Names of the scheduled kernels that each layer launches, in order."""
    found: list[list[str]] = [[] for _ in range(LAYERS)]
    for launch in journey.scheduled.record.launches.launches:
        layers = {layer_of(journey, node) for node in launch.origins}
        found[min(layers)].append(launch.kernel)
    return found


def test_the_middle_layers_share_one_set_of_kernels(journey: wb.Journey):
    layers = kernels_of_layers(journey)
    assert all(layer == layers[1] for layer in layers[2:-1])
    assert len(journey.scheduled.kernels) < 3 * len(set(layers[1]))
    assert {name for layer in layers for name in layer} == {kernel.name for kernel in journey.scheduled.kernels}
    assert len(journey.scheduled.record.launches.launches) == len(journey.lowered.record.kernels)


def test_no_two_kernels_are_the_same(journey: wb.Journey):
    texts = [re.sub(r"@\w+", "@kernel", kernel.mlir, count=1) for kernel in journey.scheduled.kernels]
    assert len(set(texts)) == len(texts)


def test_every_launch_has_its_own_origins_name_and_arguments(journey: wb.Journey):
    launches = journey.scheduled.record.launches.launches
    assert [launch.name for launch in launches] == [kernel.name for kernel in journey.lowered.record.kernels]
    nodes = [set(launch.origins) for launch in launches]
    for number, mine in enumerate(nodes):
        assert all(mine.isdisjoint(others) for others in nodes[number + 1 :])
    assert len({launch.arguments for launch in launches}) == len(launches)
    events = journey.simulated.events
    for number, rows in events.groupby("launch"):
        named = {node for origins in rows["origins"] for node in origins}
        assert named and named <= nodes[number]
        assert set(rows["kernel"]) == {launches[number].kernel}


@pytest.mark.test_all
def test_each_kernel_is_scheduled_and_compiled_once(nothing_kept: None, monkeypatch: pytest.MonkeyPatch):
    made: Counter[str] = Counter()
    schedule, compile_scheduled, compile_rendered = (
        scheduling.schedule_kernel,
        jit.compile_scheduled,
        jit.compile_rendered,
    )

    def counting(stage, function):
        def counted(*args):
            made[stage] += 1
            return function(*args)

        return counted

    monkeypatch.setattr(scheduling, "schedule_kernel", counting("schedule", schedule))
    monkeypatch.setitem(jit.COMPILERS, "scheduled", counting("native", compile_scheduled))
    monkeypatch.setitem(jit.COMPILERS, "rendered", counting("untiled", compile_rendered))
    journey = wb.trace(stack(Plain, LAYERS), torch.randn(24, 32))
    assert journey.check() and journey.check() and journey.check(stage="rendered")
    kernels = len(journey.scheduled.kernels)
    assert made == {"schedule": kernels, "native": kernels, "untiled": kernels}


@pytest.mark.test_all
def test_numbers_are_right_at_every_stage(journey: wb.Journey):
    for stage in ("rendered", "scheduled"):
        assert journey.check(stage=stage), journey.check(stage=stage).text()
    journey.simulated.trace.invariants()


def test_tables_count_launches(journey: wb.Journey):
    rows = journey.simulated.by_kernel
    assert list(rows["kernel"]) == [kernel.name for kernel in journey.scheduled.kernels]
    assert rows["launches"].sum() == len(journey.scheduled.record.launches.launches)
    assert list(journey.scheduled.table["launches"]) == list(rows["launches"])


# -- mappings ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plain() -> wb.Journey:
    """Each norm and each product has a kernel of its own."""
    return wb.trace(stack(Plain, 4), torch.randn(24, 32), fusion={"off": ["rows of a product"]})


def tiles(journey: wb.Journey) -> dict[str, int]:
    """Tile of the first dim of each launch, by the name of the launch."""
    kernels = {kernel.name: kernel for kernel in journey.scheduled.kernels}
    return {
        launch.name: kernels[launch.kernel].mapping.tile[next(iter(kernels[launch.kernel].dims))]
        for launch in journey.scheduled.record.launches.launches
    }


def test_a_mapping_of_a_shared_kernel_is_for_all_its_launches(plain: wb.Journey):
    norm, dim = plain.scheduled.kernels[0].name, next(iter(plain.scheduled.kernels[0].dims))
    mapped = plain.with_(mapping={norm: {"tile": {dim: 5}}})
    before, after = tiles(plain), tiles(mapped)
    assert {name for name in before if before[name] != after[name]} == {name for name in before if "norm" in name}
    assert len(mapped.scheduled.kernels) == len(plain.scheduled.kernels)
    assert mapped.check()


def test_a_mapping_of_one_of_them_is_for_that_one_alone(plain: wb.Journey):
    name = [launch.name for launch in plain.scheduled.record.launches.launches if "norm" in launch.name][2]
    dim = next(iter(plain.scheduled.kernels[0].dims))
    mapped = plain.with_(mapping={name: {"tile": {dim: 5}}})
    before, after = tiles(plain), tiles(mapped)
    assert [each for each in before if before[each] != after[each]] == [name]
    assert name in {kernel.name for kernel in mapped.scheduled.kernels}
    assert mapped.check()


def test_both_and_the_star_have_their_places(plain: wb.Journey):
    norms = [launch.name for launch in plain.scheduled.record.launches.launches if "norm" in launch.name]
    dim = next(iter(plain.scheduled.kernels[0].dims))
    mapping = {"*": {"buffers": 1}, norms[0]: {"tile": {dim: 5}}, norms[3]: {"tile": {dim: 7}}}
    mapped = plain.with_(mapping=mapping)
    after = tiles(mapped)
    assert [after[name] for name in norms] == [5, 5, 5, 7]
    buffers = {kernel.name: kernel.mapping.buffers for kernel in mapped.scheduled.kernels}
    assert {name for name, count in buffers.items() if count == 1} == {name for name in buffers if name not in norms}
    assert mapped.check()
