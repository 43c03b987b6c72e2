"""Tests the imports at run time: the core costs little to import and lives without torch, MLIR and any UI."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from tests.fresh_process import python

ROOT = Path(__file__).resolve().parent.parent

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Blocker())
"""
HEAVY = ("torch", "torch_mlir", "IPython", "ipywidgets", "anywidget", "matplotlib")


def run(code: str, *, blocked: tuple[str, ...] = HEAVY) -> str:
    """Output of the code in a fresh process in which `blocked` cannot be imported."""
    return python("-c", BLOCKER.format(blocked=blocked) + code)


def test_the_blocker_blocks():
    with pytest.raises(AssertionError, match="torch is blocked"):
        run("import torch")


def test_workbench_imports_without_any_heavy_library():
    blocked = (*HEAVY, "numpy", "numba", "pandas")
    assert run("import workbench as wb; print(wb.__version__, 'trace' in dir(wb))", blocked=blocked) == "0.1.0 True\n"


def test_importing_the_workbench_loads_nothing_heavy():
    heavy = [*HEAVY, "numpy", "numba", "pandas"]
    assert run(f"import workbench; print([name for name in {heavy} if name in sys.modules])", blocked=()) == "[]\n"


@pytest.mark.test_all
def test_compiling_loads_neither_the_simulator_nor_what_arranges_tables():
    later = ["numba", "pandas", "matplotlib", "simulator.engine.engine", "workbench.explaining.findings"]
    code = (
        "import torch, workbench as wb\n"
        "kernels = wb.trace(lambda x: x.softmax(1), torch.randn(8, 8)).scheduled.kernels\n"
        f"print(len(kernels), [name for name in {later} if name in sys.modules])"
    )
    assert run(code, blocked=()) == "1 []\n"


def test_the_command_line_helps_without_any_heavy_library():
    code = (
        "from workbench.commands.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n    print(end.code)"
    )
    out = run(code)
    assert "trace" in out and out.endswith("0\n")


def test_machines_are_listed_without_any_heavy_library():
    out = run("from workbench.commands.cli import main\nprint(main(['machines']))")
    assert "tpu-v3" in out and "edge-8x8" in out and out.endswith("0\n")


@pytest.mark.test_all
def test_a_saved_program_is_simulated_without_any_heavy_library(tmp_path: Path):
    from simulator.tileprogram.program import (
        Access,
        Argument,
        Buffer,
        DependenceKind,
        Instruction,
        Opcode,
        Operand,
        OpInfo,
        Space,
    )
    from simulator.tileprogram.program_builder import ProgramBuilder

    builder = ProgramBuilder("copy")
    builder.arguments += [Argument("x", (256,), (1,), 0, 4, False), Argument("y", (256,), (1,), 0, 4, True)]
    builder.buffers.append(Buffer("tile", 4096, 1, 0, 4))
    builder.ops += [OpInfo("linalg.copy", 1, ()), OpInfo("linalg.copy", 2, ())]
    tile = {"target": 0, "slot": 0, "offset": 0, "shape": (256,), "strides": (1,), "element_bytes": 4}
    for opcode, argument, wait in ((Opcode.LOAD, 0, ()), (Opcode.STORE, 1, ((0, DependenceKind.READ_AFTER_WRITE),))):
        into = opcode == Opcode.LOAD
        dram = Operand(Space.DRAM, argument, 0, 0, (256,), (1,), 4, Access.READ if into else Access.WRITE)
        scratchpad = Operand(Space.SCRATCHPAD, **tile, access=Access.WRITE if into else Access.READ)
        builder.add(Instruction(opcode, argument, (), (dram, scratchpad), (256,), dependences=wait))
    path = tmp_path / "copy.npz"
    builder.build().save(path)
    code = f"""
from simulator import Launched, TileProgram, load_machine, simulate
program = TileProgram.load({str(path)!r})
trace = simulate([Launched("copy", program, (0, 4096))], load_machine("tpu-v3"))
print(len(trace), trace.makespan > 0, trace.counters["dram_read_bytes"], trace.counters["dram_write_bytes"])
"""
    assert run(code) == "2 True 1024 1024\n"


def test_the_simulator_imports_numpy_numba_and_the_standard_library_only():
    allowed = {"numpy", "numba", "simulator", *sys.stdlib_module_names}
    found: dict[str, set[str]] = {}
    for path in (ROOT / "simulator").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            foreign = {name.partition(".")[0] for name in names} - allowed
            if foreign:
                found[path.name] = foreign
    assert found == {}


def test_pictures_say_what_to_install_when_matplotlib_is_missing():
    code = """
from workbench.explaining.artefacts import drawing
from workbench.ground.errors import MissingExtra
try:
    drawing()
except MissingExtra as error:
    print(error)
"""
    out = run(code, blocked=("matplotlib",))
    assert "pip install 'aten-workbench[lab]'" in out and "matplotlib is not installed" in out


@pytest.mark.test_all
def test_a_saved_journey_opens_shows_itself_and_is_simulated_without_any_heavy_library(tmp_path: Path):
    import torch

    import workbench as wb

    path = tmp_path / "softmax.journey"
    journey = wb.trace(torch.softmax, torch.randn(100, 77), 1)
    journey.save(path)
    code = f"""
import workbench as wb
j = wb.load({str(path)!r})
stages = (j.captured, j.lowered, j.rendered, j.scheduled, j.simulated)
print(all(len(stage.table) and len(stage.text()) > 100 and stage.html().startswith("<") for stage in stages))
print(all(stage._repr_mimebundle_()["text/plain"] == repr(stage) for stage in stages))
again, elsewhere = (wb.simulate(j.lowered, j.scheduled, machine=each) for each in (j.machine, "tpu-v2"))
print(again.cycles, elsewhere.cycles > 0)
for machine in ("tpu-v2", "edge-8x8"):
    try:
        j.with_(machine=machine).simulated
    except wb.WorkbenchError as error:
        print(type(error).__name__, error)
try:
    j.check()
except wb.WorkbenchError as error:
    print(type(error).__name__)
"""
    lines = run(code).splitlines()
    assert lines[:3] == ["True", "True", f"{journey.simulated.cycles} True"]
    assert lines[3].startswith("MissingExtra torch") and "the stage 'schedule' needs it: pip install" in lines[3]
    assert lines[4].startswith("MissingExtra torch") and "the stage 'render' needs it: pip install" in lines[4], (
        "without blocks"
    )
    assert lines[5] == "NoFunction"
