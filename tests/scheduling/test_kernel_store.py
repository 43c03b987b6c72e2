"""Scheduled kernels on disk: the same as made anew, found by other processes, under a key that misses no difference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from simulator import Machine
from simulator.errors import DoesNotFit
from simulator.machine import dram_file
from simulator.machine.figure_places import with_figures
from simulator.machine.machine_file import load_machine
from simulator.tileprogram.program import TileProgram
from tests.flow import Flow, flow
from tests.programs import PROGRAMS
from workbench.ground.environment import disk_store
from workbench.ground.environment.processor import can_link
from workbench.ir import ScheduledKernel
from workbench.ir.kernel_identity import machine_key, module_key, nameless, schedule_key, taken_over
from workbench.scheduling import kernel_store
from workbench.scheduling import schedule_kernel as scheduling
from workbench.scheduling.kernel_store import KernelStore, default_store, pack, unpack, versioned
from workbench.scheduling.schedule import schedule

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ffn() -> Flow:
    def function(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x + F.gelu(x @ up) @ down, dim=-1)

    return flow(function, [torch.randn(30, 40), torch.randn(40, 64), torch.randn(64, 40)])


def same(one: ScheduledKernel, other: ScheduledKernel) -> bool:
    """Equal in everything but how long the passes took."""
    timeless = [
        replace(kernel, passes=tuple(replace(step, seconds=0.0) for step in kernel.passes)) for kernel in (one, other)
    ]
    return timeless[0] == timeless[1]


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize("name", ["softmax_long_row", "matmul_bias_gelu", "layernorm", "add_broadcast"])
def test_bytes_give_the_kernel_back(name: str):
    program = PROGRAMS[name]
    for kernel in flow(program.build(), program.inputs(), program.kwargs(), machine="edge-8x8").scheduled.kernels:
        assert unpack(pack(kernel)) == kernel


def test_a_second_schedule_makes_nothing(ffn: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=KernelStore(tmp_path))

    def none(*_: object) -> None:
        raise AssertionError("a kernel was scheduled although it is kept")

    monkeypatch.setattr(scheduling, "schedule_kernel", none)
    store = KernelStore(tmp_path)
    second = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store)
    assert second == first
    assert (store.store.hits, store.store.misses) == (len(first.kernels), 0)
    replace(ffn, scheduled=second).assert_matches_eager(torch.randn(30, 40), torch.randn(40, 64), torch.randn(64, 40))


def test_kernels_of_another_function_are_found_under_their_own_names(tmp_path: Path):
    """A kernel's surroundings are not in its key: the same softmax, the second kernel of one function, the first of
    another."""
    store = KernelStore(tmp_path)
    x = torch.randn(24, 32)
    one = flow(lambda x: torch.softmax(torch.softmax(x.t(), 0).t() @ x.t(), 0) @ x, [x])
    two = flow(lambda scores, x: torch.softmax(scores, 0) @ x, [torch.randn(24, 24), x])
    schedule(one.lowered, one.rendered, one.machine, store=store)
    found = schedule(two.lowered, two.rendered, two.machine, store=store)
    assert store.store.hits == 2
    for kernel, anew in zip(found.kernels, two.scheduled.kernels, strict=True):
        assert same(kernel, anew)
        assert f"func.func @{kernel.kernel}(" in kernel.mlir
    assert found.launches == two.scheduled.launches


Change = Callable[[Flow], dict[str, object]]
CHANGES: dict[str, Change] = {
    "another machine": lambda made: {"machine": load_machine("edge-8x8")},
    "one figure of the machine": lambda made: {
        "machine": with_figures(made.machine, {"dma_queues": made.machine.dma.queues + 1})
    },
    "a mapping": lambda made: {"mapping": {"*": {"buffers": 1}}},
    "a tile": lambda made: {"mapping": {"*": {"tile": {}}}},
    "strides of an argument": lambda made: {
        "rendered": tuple(
            replace(each, arguments=(replace(each.arguments[0], strides=(1, 64)), *each.arguments[1:]))
            for each in made.rendered
        )
    },
    "the text": lambda made: {
        "rendered": tuple(replace(each, located=each.located + "\n// changed\n") for each in made.rendered)
    },
}


@pytest.mark.test_all(but=5)
@pytest.mark.parametrize("change", CHANGES)
def test_every_difference_misses(ffn: Flow, tmp_path: Path, change: str):
    store = KernelStore(tmp_path)
    schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store)
    given: dict[str, object] = {"rendered": ffn.rendered, "machine": ffn.machine, "mapping": None}
    given |= CHANGES[change](ffn)
    schedule(ffn.lowered, store=store, **given)
    assert store.store.hits == 0


@pytest.mark.parametrize("part", ["sources", "wheels"])
def test_another_version_of_what_schedules_misses(
    ffn: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
):
    schedule(ffn.lowered, ffn.rendered, ffn.machine, store=KernelStore(tmp_path))
    before = disk_store.made_by()
    disk_store.made_by.cache_clear()
    if part == "sources":
        read = Path.read_bytes
        changed = "promote.py"
        monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + (b"# later" if path.name == changed else b""))
    else:
        monkeypatch.setattr(disk_store.metadata, "version", lambda wheel: "20991231")
    try:
        assert disk_store.made_by() != before
        store = KernelStore(tmp_path)
        schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store)
        assert store.store.hits == 0
    finally:
        monkeypatch.undo()
        disk_store.made_by.cache_clear()
    assert disk_store.made_by() == before


def test_keys_do_not_depend_on_names(ffn: Flow):
    module = ffn.rendered[0]
    other = replace(
        module,
        kernel="k7_other",
        mlir=module.mlir.replace(f"@{module.kernel}(", "@k7_other("),
        located=module.located.replace(f"@{module.kernel}(", "@k7_other("),
        origins=tuple(f"{name}_9" for name in module.origins),
    )
    assert module_key(module) == module_key(other)
    assert nameless(module.mlir, module.kernel) == nameless(other.mlir, other.kernel) != module.mlir
    over = taken_over(ffn.scheduled.kernels[0], other)
    assert over.program.origin_names == other.origins
    texts = [over.mlir, over.located, *(step.mlir for step in over.passes)]
    assert all("@k7_other(" in text and module.kernel not in text for text in texts)


def test_what_does_not_fit_is_refused_each_time(tmp_path: Path):
    made = flow(lambda x: torch.softmax(x, 1), [torch.randn(64, 4096)], machine="edge-8x8")
    mapping = {"*": {"tile": dict.fromkeys(made.scheduled.kernels[0].dims, 4096)}}
    for _ in range(2):
        with pytest.raises(DoesNotFit):
            schedule(made.lowered, made.rendered, made.machine, mapping, KernelStore(tmp_path))
    assert KernelStore(tmp_path).store.entries == 0


WRONG = {
    "nothing": lambda data: b"",
    "no JSON": lambda data: data[:8] + b"x" * (len(data) - 8),
    "a length that lies": lambda data: (1 << 40).to_bytes(8, "little") + data[8:],
    "no program": lambda data: data[: 8 + int.from_bytes(data[:8], "little")],
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_entry_that_is_whole_but_no_kernel_is_made_again(ffn: Flow, tmp_path: Path, wrong: str):
    store = KernelStore(tmp_path)
    kernels = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store).kernels
    for module, kernel in zip(ffn.rendered, kernels, strict=True):
        key = schedule_key(module_key(module), machine_key(ffn.machine), None)
        store.store.put(versioned(key), WRONG[wrong](pack(kernel)))
        assert KernelStore(tmp_path).get(key, module) is None
    store = KernelStore(tmp_path)
    again = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store).kernels
    assert all(map(same, again, kernels))
    assert schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store).kernels == again


def test_damaged_files_are_made_again(ffn: Flow, tmp_path: Path):
    store = KernelStore(tmp_path)
    kernels = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store).kernels
    paths = sorted(tmp_path.iterdir())
    paths[0].write_bytes(b"garbage")
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    store = KernelStore(tmp_path)
    again = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store).kernels
    assert all(map(same, again, kernels))
    assert store.store.misses == store.store.writes == 2
    store = KernelStore(tmp_path)
    schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store)
    assert (store.store.hits, store.store.misses) == (len(kernels), 0)


def test_the_environment_moves_it_and_switches_it_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ATEN_WORKBENCH_CACHE", str(tmp_path))
    for off in ("off", "0", "No"):
        monkeypatch.setenv("ATEN_WORKBENCH_KERNEL_CACHE", off)
        assert default_store() is None
    monkeypatch.delenv("ATEN_WORKBENCH_KERNEL_CACHE")
    store = default_store()
    assert store is not None and store is default_store()
    assert store.store.folder == tmp_path / "kernels"
    assert repr(store) == f"KernelStore({str(tmp_path / 'kernels')!r}, 0 kernels, 0 bytes)"


JOURNEY = """
    import json, sys, torch
    import workbench as wb
    from tests.layers import Plain, stack
    from workbench.scheduling.kernel_store import default_store
    from workbench.running.native_store import default_native_store
    torch.manual_seed(0)
    x = torch.randn(24, 32)
    rows = []
    for _ in range(int(sys.argv[1])):
        journey = wb.trace(stack(Plain, 3), x)
        kernels = journey.scheduled.kernels
        rows.append([bool(journey.check()), journey.simulated.cycles, len(kernels)])
        if len(sys.argv) > 2:
            default_store().clear()
    counts, native = default_store().store, default_native_store()
    native = [native.store.hits, native.store.writes] if native else None
    print(json.dumps({"rows": rows, "hits": counts.hits, "misses": counts.misses, "native": native}))
"""


def start(folder: Path, *args: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "ATEN_WORKBENCH_KERNEL_CACHE": str(folder)}
    command = [sys.executable, "-c", textwrap.dedent(JOURNEY), *map(str, args)]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finished(process: subprocess.Popen[str]) -> dict[str, object]:
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.mark.test_all
def test_the_next_process_finds_every_kernel(tmp_path: Path):
    first, second = finished(start(tmp_path, 1)), finished(start(tmp_path, 1))
    assert first["rows"] == second["rows"]
    ((ok, _, kernels),) = first["rows"]
    assert ok
    assert (first["hits"], first["misses"]) == (0, kernels)
    assert (second["hits"], second["misses"]) == (kernels, 0)
    if can_link():
        assert (first["native"], second["native"]) == ([0, kernels], [kernels, 0])


@pytest.mark.test_all
def test_two_processes_at_once_agree(tmp_path: Path):
    """Both make, find and throw away the same kernels."""
    both = [start(tmp_path, 3, "clear") for _ in range(2)]
    one, two = map(finished, both)
    assert one["rows"] == two["rows"]
    assert all(ok for ok, _, _ in one["rows"])


def test_the_program_is_no_pickle(ffn: Flow, tmp_path: Path):
    kernel = ffn.scheduled.kernels[0]
    data = pack(kernel)
    start_of_program = 8 + int.from_bytes(data[:8], "little")
    (tmp_path / "program.npz").write_bytes(data[start_of_program:])
    assert TileProgram.load(tmp_path / "program.npz") == kernel.program


@pytest.fixture
def shipped() -> str:
    return (Path(dram_file.__file__).parent / "shipped_memories" / "HBM2_2000Mbps.toml").read_text()


def banked(path: Path, **figures: str) -> Machine:
    return load_machine("tpu-v3", memory="banked", dram_timing=str(path), **figures)


def slower(text: str) -> str:
    return text.replace("activate_to_activate = 4", "activate_to_activate = 6", 1)


def test_the_key_has_what_a_memory_file_says_and_not_what_it_is_called(tmp_path: Path, shipped: str):
    mine, other = tmp_path / "mine.toml", tmp_path / "other.toml"
    mine.write_text(shipped)
    other.write_text(shipped)
    key = machine_key(banked(mine))
    assert key == machine_key(banked(other)) == machine_key(banked(mine, name="somebody's"))
    mine.write_text(slower(shipped))
    assert key != machine_key(banked(mine))


def test_an_edited_memory_file_schedules_anew(tmp_path: Path, shipped: str):
    mine, store = tmp_path / "mine.toml", KernelStore(tmp_path / "kept")
    mine.write_text(shipped)
    made = flow(torch.relu, [torch.randn(8, 8)])
    for text, hits in ((shipped, 0), (shipped, 1), (slower(shipped), 1), (shipped, 2)):
        mine.write_text(text)
        schedule(made.lowered, made.rendered, banked(mine), store=store)
        assert store.store.hits == hits


def test_a_kernel_that_somebody_holds_is_not_read_again(ffn: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = KernelStore(tmp_path)
    first = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store)

    def none(*_: object) -> None:
        raise AssertionError("a kernel was read although it is here")

    with monkeypatch.context() as patch:
        patch.setattr(kernel_store, "unpack", none)
        second = schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store)
    assert all(one is other for one, other in zip(first.kernels, second.kernels, strict=True))
    gone = [weakref.ref(each) for each in second.kernels]
    del first, second
    assert not any(each() for each in gone)
    schedule(ffn.lowered, ffn.rendered, ffn.machine, store=store)
    assert store.store.misses == len(gone)
