"""The engine as machine code: compiled once, kept, the same as in plain Python, and modest in what it takes."""

from __future__ import annotations

import shutil
import sys
import tracemalloc
from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

import numba
import numpy as np
import pytest

from simulator import Launched, load_machine, simulate
from simulator.compiled import compiled
from simulator.engine import event_loop, issue, start
from simulator.memory import dram
from simulator.tileprogram.program import TileProgram
from simulator.units import cost_table
from tests.fresh_process import python
from tests.simulator.build import direct_copy, elementwise, matmul_chain
from tests.simulator.engine.test_cores import spread

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import million


def digests(memory: str) -> list[str]:
    """Of some launches of everything, on two machines, and of two cores that share the memory."""
    found = list[str]()
    for name in ("tpu-v3", "edge-8x8"):
        machine = load_machine(name, memory=memory, queue_depth=3, issue_window=9)
        launches = [
            Launched("a", elementwise(9, 3), (0, 64)),
            Launched("b", matmul_chain(48, 32, 64, 16), (0, 8, 4096)),
            Launched("c", direct_copy(5, 9), (0, 4)),
        ]
        found.append(simulate(launches, machine).digest())
    two = load_machine("edge-8x8", memory=memory, cores=2)
    return [*found, simulate([Launched("d", spread(2), (0, 1 << 16))], two).digest()]


SCRIPT = """
import sys
from simulator.compiled import when_compiling
from tests.simulator.engine.test_compiled import digests, most_often
began = []
with when_compiling(began.append):
    for digest in digests(sys.argv[1]):
        print(digest)
print(began.count(True), most_often())
"""


def most_often() -> int:
    """Most compilations of any one function in this process."""
    functions = [each for module in (event_loop, issue, start, dram) for each in vars(module).values()]
    return max(len(getattr(each, "nopython_signatures", ())) for each in functions)


def in_a_new_process(cache: Path, memory: str = "simple", script: str = SCRIPT, **environment: str) -> list[str]:
    return python("-c", script, memory, ATEN_WORKBENCH_CACHE=str(cache), **environment).split()


@pytest.mark.test_all
def test_traces_are_the_same_in_every_process_and_only_the_first_compiles(tmp_path: Path) -> None:
    *first, compiled, most_often = in_a_new_process(tmp_path)
    assert first == digests("simple")
    assert int(compiled) > 0
    assert most_often == "1"  # not once more for each constant that a caller happens to pass
    assert [path.name.split("-")[0] for path in tmp_path.iterdir()] == ["numba"]
    assert in_a_new_process(tmp_path, PYTHONHASHSEED="7") == [*first, "0", "1"]


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_plain_python_gives_the_same_traces(tmp_path: Path, memory: str) -> None:
    assert in_a_new_process(tmp_path / "none", memory, NUMBA_DISABLE_JIT="1") == [*digests(memory), "0", "0"]


# One compiled function stands for all: each goes its own way to the cache, and the loop alone takes seconds
ONE_FUNCTION = """
from fractions import Fraction
from simulator.memory.bus import grant, idle_bus
print(grant(idle_bus(0, Fraction(1)), 7))
"""


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert in_a_new_process(tmp_path / "file", script=ONE_FUNCTION) == ["7"]


@pytest.mark.parametrize("memory", ["simple", "banked"])
def test_a_million_instructions_take_less_than_a_gigabyte(monkeypatch: pytest.MonkeyPatch, memory: str) -> None:
    """By what each adds to the most that is needed at once; a process takes some 200 MB without any."""
    monkeypatch.setattr(cost_table, "_PIECE", 1000)  # as many pieces as a million would be
    machine = load_machine("tpu-v3", memory=memory)

    def most(instructions: int) -> int:
        tracemalloc.start()
        try:
            simulate([Launched("long", million.program(instructions), (0, 1 << 30))], machine)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(600)
    assert 500 < (most(20_000) - most(10_000)) / 10_000 < 720


def test_what_would_allocate_is_not_compiled() -> None:
    """So Numba need not count references to arrays, which is most of the time where there are many small functions."""

    def ends(rows: Any) -> int:
        return rows[0][0] + rows[-1:][0, 0]

    def make(count: int) -> int:
        return len(np.zeros(count))

    assert compiled(ends)(np.array([[2, 7], [3, 9]])) == 5
    with pytest.raises(cast(Any, numba).TypingError, match="zeros"):
        compiled(make)(3)


def test_costs_are_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = (elementwise(9, 3), matmul_chain(48, 32, 64, 16), direct_copy(5, 9))
    for name, memory in (("edge-8x8", "simple"), ("tpu-v3", "banked")):
        machine = load_machine(name, memory=memory)

        def tables(program: TileProgram, machine: Any = machine) -> list[Any]:
            asked = cost_table.work(program, tuple(range(len(program.arguments))), machine)
            return [asked.table, asked.moved, asked.read, asked.written]

        for program in programs:
            whole = tables(program)
            with monkeypatch.context() as changed:
                changed.setattr(cost_table, "_PIECE", 4)
                pieces = tables(program)
            assert len(program) > 4
            assert all(np.array_equal(one, other) for one, other in zip(whole, pieces, strict=True))


def test_a_part_of_a_program_is_its_instructions() -> None:
    program = matmul_chain(48, 32, 64, 16)
    part = program.part(5, 9)
    assert [astuple(part.instruction(row)) for row in range(4)] == [
        astuple(program.instruction(row)) for row in range(5, 9)
    ]


def test_a_change_in_any_folder_of_the_simulator_is_compiled_anew(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parents[3] / "simulator", tmp_path / "simulator")

    def folder() -> str:
        code = "import simulator.compiled as c; print(c.__file__, c.cache_folder().name)"
        cache = str(tmp_path / "cache")
        file, name = python("-c", code, cwd=tmp_path, PYTHONPATH=str(tmp_path), ATEN_WORKBENCH_CACHE=cache).split()
        assert Path(file).is_relative_to(tmp_path)
        return name

    before = folder()
    with (tmp_path / "simulator" / "memory" / "banked" / "banks.py").open("a") as source:
        source.write("# another line\n")
    assert folder() != before
