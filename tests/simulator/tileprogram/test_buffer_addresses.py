"""Buffers that share scratchpad addresses: where they are put, what must wait then, and that all of it does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import Launched, Machine, load_machine, simulate, verify
from simulator.analysis.stalls import stalls_of
from simulator.errors import DoesNotFit, InvariantViolation, ProgramError
from simulator.tileprogram.buffer_addresses import clashes, in_use, placed
from simulator.tileprogram.program import Access, DependenceKind, Opcode, Space, TileProgram
from tests.broken_programs import drop_edge, implied, remove_slot, slot_implied
from tests.simulator.build import EDGE, Made, caught, elements, run

REUSE = DependenceKind.REUSE


def machine_with(scratchpad: int, **figures: int | float) -> Machine:
    return load_machine("edge-8x8", scratchpad_bytes_per_lane=scratchpad // 8, **figures)


def phases(count: int, tiles: int = 4, slots: int = 2, elements_: int = 256) -> TileProgram:
    """Loops one after the other, each through a buffer of its own: every tile is loaded, worked on and stored."""
    made = Made()
    made.argument("x", (count * tiles, elements_))
    made.argument("out", (count * tiles, elements_), written=True)
    for phase in range(count):
        made.buffer(f"t{phase}", elements_, slots)
        for tile in range(tiles):
            at, here = (phase * tiles + tile) * elements_, made.pad(f"t{phase}", (elements_,), tile % slots)
            made.load(made.dram("x", (elements_,), at), here)
            made.vector([here], here, (0, 1, 0, 0))
            made.store(here, made.dram("out", (elements_,), at))
    return made.build()


def reuses(program: TileProgram) -> list[tuple[int, int]]:
    owner = np.repeat(np.arange(len(program)), np.diff(program.dependence_start))
    links = program.dependence_kind == REUSE
    return list(zip(program.dependence[links].tolist(), owner[links].tolist(), strict=True))


def test_buffers_that_fit_side_by_side_stay_there() -> None:
    program = phases(3)
    assert placed(program, program.scratchpad_bytes) is program


def test_the_last_user_of_an_address_is_waited_for() -> None:
    program = placed(phases(3), 2 * 2048)
    assert [buffer.offset for buffer in program.buffers] == [0, 2048, 0]
    assert program.scratchpad_bytes == 4096
    # the third loop's loads wait for the stores that emptied the first loop's two slots, and for nothing else
    assert reuses(program) == [(8, 24), (11, 27)]
    run(program)


def test_addresses_used_longest_ago_are_taken_first() -> None:
    program = placed(phases(6), 3 * 2048)
    assert [buffer.offset for buffer in program.buffers] == [0, 2048, 4096, 0, 2048, 4096]


def test_a_reuse_that_holds_somebody_up_is_named() -> None:
    program = phases(2, tiles=1, slots=1)
    alone, shared = run(program), run(placed(program, 1024))
    assert shared.start[3] == shared.end[2] > alone.start[3]
    assert shared.columns()["cause"][3] == "reuse"
    assert sum(int(row["reuse"]) for row in stalls_of(shared)) > 0 == sum(int(row["reuse"]) for row in stalls_of(alone))


def test_parts_of_a_buffer_wait_only_for_those_they_overwrite() -> None:
    made = Made()
    made.argument("x", (512,))
    made.buffer("one", 512)
    made.buffer("two", 256)
    for half in (0, 256):
        made.load(made.dram("x", (256,), half), made.pad("one", (256,), offset=half))
    made.vector([made.pad("one", (256,))], made.pad("one", (256,)))
    made.vector([made.pad("one", (256,), offset=256)], made.pad("one", (256,), offset=256))
    made.load(made.dram("x", (256,)), made.pad("two", (256,)))
    made.vector([made.pad("two", (256,))], made.pad("two", (256,)))
    program = placed(made.build(), 2048)
    assert reuses(program) == [(2, 4)]
    verify(program)


def test_a_layout_in_order_of_use_that_does_not_fit_is_packed_by_size() -> None:
    """a and b are in use together, then b and c, then c and d: laid out as they come, a leaves a hole too small."""
    made = Made()
    for name, size in (("a", 64), ("b", 64), ("c", 128), ("d", 64)):
        made.buffer(name, size)
    for one, other in (("a", "b"), ("b", "c"), ("c", "d")):
        made.vector([made.pad(one, (64,))], made.pad(other, (64,)))
    program = placed(made.build(), 3 * 256)
    assert [buffer.offset for buffer in program.buffers] == [0, 512, 0, 512]
    assert program.scratchpad_bytes == 768
    run(program)


def test_the_demand_is_the_peak_of_what_is_in_use() -> None:
    program = placed(phases(3), 100)
    assert program.scratchpad_bytes == 2048  # one loop's buffer
    with pytest.raises(DoesNotFit) as caught:
        run(program, machine_with(1024))
    assert (caught.value.demand, caught.value.capacity) == (2048, 1024)
    assert caught.value.buffers == (("t0", 2048),)  # one of three equal peaks: the others are not in the way


def test_a_buffer_that_nobody_touches_can_lie_anywhere() -> None:
    made = Made()
    made.buffer("used", 64)
    made.buffer("unused", 64)
    made.vector([], made.pad("used", (64,)))
    assert [use.last for use in in_use(made.build())] == [0, -1]
    assert placed(made.build(), 256).scratchpad_bytes == 256


def moved(program: TileProgram, buffer: int, offset: int) -> TileProgram:
    buffers = list(program.buffers)
    buffers[buffer] = dataclasses.replace(buffers[buffer], offset=offset)
    return dataclasses.replace(program, buffers=tuple(buffers))


def test_sharing_without_waiting_is_refused_and_shows_in_the_trace() -> None:
    """The second loop is short of dependences on the first, whose address it was given."""
    program = moved(phases(2), 1, 0)
    with pytest.raises(ProgramError, match="both touch buffer 't0' slot 0 and, at its address, buffer 't1' slot 0"):
        verify(program)
    with pytest.raises(InvariantViolation, match=r"both touch buffer 't0' slot \d and, at its address, buffer 't1'"):
        simulate([Launched("k", program, (0, 0))], EDGE).invariants()


def test_sharing_while_both_are_in_use_is_refused() -> None:
    made = Made()
    made.buffer("a", 64)
    made.buffer("b", 64)
    made.vector([], made.pad("a", (64,)))
    made.vector([], made.pad("b", (64,)))
    made.vector([made.pad("a", (64,))], made.pad("a", (64,)))
    broken = moved(made.build(), 1, 128)
    assert [(low.name, high.name) for low, high in clashes(broken)] == [("a", "b")]
    with pytest.raises(
        ProgramError, match="'a' and 'b' share scratchpad bytes from 128 on, and are in use at the same"
    ):
        verify(broken)


def test_every_dropped_reuse_that_matters_iscaught() -> None:
    program = placed(phases(4), 2048)
    edges = np.flatnonzero(program.dependence_kind == REUSE).tolist()
    assert len(edges) >= 6
    for edge in edges:
        assert not implied(program, edge)
        with pytest.raises(ProgramError, match="at its address"):
            verify(drop_edge(program, edge))


def test_a_reuse_is_not_only_seen_by_the_verifier() -> None:
    """Copies take less time than the vector passes: without the wait, a load overwrites what is still worked on."""
    program = placed(phases(2), 2048)
    machine = machine_with(2048, dram_latency_ns=1, special_interval_cycles=100)
    run(program, machine)
    for edge in np.flatnonzero(program.dependence_kind == REUSE).tolist():
        broken = drop_edge(program, edge)
        with pytest.raises(InvariantViolation, match="at its address"):
            simulate([Launched("k", broken, (0, 0))], machine).invariants()


# -- random programs --------------------------------------------------------------------------------------------------


@st.composite
def windows(draw: st.DrawFn) -> TileProgram:
    """Work on often overlapping parts of buffers of different sizes, each used for some time."""
    made = Made()
    made.argument("x", (16, 16), written=True)
    sizes = draw(st.lists(st.sampled_from([64, 128, 192, 256]), min_size=3, max_size=5))
    for number, size in enumerate(sizes):
        made.buffer(f"t{number}", size, draw(st.integers(1, 2)))
    for step in range(draw(st.integers(4, 16))):
        number = min(step // 3 + draw(st.integers(0, 1)), len(sizes) - 1)
        buffer = made.builder.buffers[number]
        rows = draw(st.integers(1, sizes[number] // 16))
        row = draw(st.integers(0, sizes[number] // 16 - rows))
        box = made.pad(buffer.name, (rows, 8), draw(st.integers(0, buffer.slots - 1)), offset=row * 16)
        box = dataclasses.replace(box, strides=(16, 1))
        kind = draw(st.sampled_from(["load", "store", "vector", "direct", "matmul"]))
        if kind == "load":
            made.load(made.dram("x", (rows, 8)), box)
        elif kind == "store":
            made.store(box, made.dram("x", (rows, 8)))
        elif kind == "vector":
            made.vector([box], box, (1, 0, 0, 0))
        elif kind == "direct":
            made.direct(elements(box, Access.WRITE, stride=draw(st.sampled_from([1, 2])), count=8))
        else:
            square = dataclasses.replace(box, shape=(8, 8), strides=(1, 1), offset=0)
            made.matmul(square, square, dataclasses.replace(square, strides=(8, 1)), accumulates=draw(st.booleans()))
    return made.build()


@pytest.mark.test_all
@settings(max_examples=60, deadline=None, derandomize=True)
@given(windows())
def test_random_programs_share_addresses_safely(program: TileProgram) -> None:
    wanted = max(
        sum(use.size for use in in_use(program) if use.first <= now <= use.last) for now in range(len(program))
    )
    for capacity in (program.scratchpad_bytes * 3 // 4, 0):
        shared = placed(program, capacity)
        assert wanted <= shared.scratchpad_bytes <= program.scratchpad_bytes
        assert [buffer.name for buffer in shared.buffers] == [buffer.name for buffer in program.buffers]
        for machine in (EDGE, load_machine("tpu-v4"), machine_with(1 << 18, dma_queues=3, systolic_arrays=3)):
            run(shared, machine)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(windows())
def test_random_programs_that_share_lose_no_edge_unnoticed(program: TileProgram) -> None:
    shared = placed(program, 0)
    for edge in range(len(shared.dependence)):
        assert caught(drop_edge(shared, edge)) != implied(shared, edge)
    for number, buffer in enumerate(shared.buffers):
        if buffer.slots > 1:
            assert caught(remove_slot(shared, number)) != slot_implied(shared, number)


def test_what_is_not_in_the_scratchpad_stays_as_it_was() -> None:
    program, shared = phases(3), placed(phases(3), 2048)
    for column in ("opcode", "extent", "space", "target", "slot", "offset", "shape", "origin"):
        assert (getattr(program, column) == getattr(shared, column)).all()
    kept = {kind for kind in shared.dependence_kind.tolist() if kind != REUSE}
    assert kept == set(program.dependence_kind.tolist())
    assert int((program.space == Space.DRAM).sum()) == 24 and Opcode.LOAD in program.opcode
