"""Machine code from one process in another: the same numbers, found by text and processor, never run when it is not."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.flow import flow
from tests.mlir.examples import row_softmax
from tests.programs import PROGRAMS
from workbench.ground.environment.disk_store import Store
from workbench.ground.environment.processor import can_link
from workbench.running import native_store
from workbench.running.jit import NativeKernel, compile_scheduled, unpack
from workbench.running.machine_code import link, needed_symbols
from workbench.running.native_store import NativeStore
from workbench.running.run_program import KernelCache, NativeProgram

pytestmark = pytest.mark.skipif(not can_link(), reason="objects are linked on 64-bit x86 Linux only")


@pytest.fixture(scope="module")
def packed() -> bytes:
    data = compile_scheduled(row_softmax(20, 30, 8), "softmax").pack()
    assert data is not None
    return data


def assert_softmax(kernel: NativeKernel) -> None:
    x, out = torch.randn(20, 30), torch.empty(20, 30)
    kernel([x, out])
    torch.testing.assert_close(out, torch.softmax(x, 1))


@pytest.mark.test_all(but=4)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("name", [*PROGRAMS])
def test_the_shared_programs_compute_the_same_bits(name: str, tmp_path: Path):
    program = PROGRAMS[name]
    inputs, kwargs = program.inputs(), program.kwargs()
    made = flow(program.build(), inputs, kwargs)
    values = made.captured.values(inputs, kwargs)
    store = NativeStore(Store(tmp_path))
    caches = KernelCache(store), KernelCache(store)
    compiled, linked = (NativeProgram.from_scheduled(made.lowered, made.scheduled, c).run(values) for c in caches)
    kernels = len(made.scheduled.kernels)
    assert (caches[0].compiled, caches[1].compiled, store.store.hits) == (kernels, 0, kernels)
    assert all(map(torch.equal, pytree.tree_leaves(linked), pytree.tree_leaves(compiled)))


def test_an_unpacked_kernel_checks_its_arguments_and_outlives_others(packed: bytes):
    kernels = [unpack(packed, f"k{index}") for index in range(20)]
    assert all(kernels)
    kept = kernels[7]
    del kernels
    assert kept is not None
    for _ in range(3):
        assert_softmax(kept)
    with pytest.raises(Exception, match="argument 1 of k7"):
        kept([torch.randn(20, 30), torch.empty(30, 20).t()])
    assert kept.pack() is None


def test_a_symbol_this_process_lacks_is_found_before_linking(packed: bytes):
    (length,) = struct.unpack_from("<Q", packed)
    code = packed[8 + length :]
    assert {"malloc", "free"} <= set(needed_symbols(code))
    foreign = code.replace(b"\0malloc\0", b"\0mallox\0")
    assert "mallox" in needed_symbols(foreign)
    assert link(foreign, "_mlir_workbench_kernel") is None
    assert unpack(packed[: 8 + length] + foreign, "k") is None


@pytest.mark.parametrize("damage", [lambda d: b"", lambda d: d[:4], lambda d: d[:-200], lambda d: b"\xff" * len(d)])
def test_what_is_no_kernel_is_none(packed: bytes, damage):
    assert unpack(damage(packed), "k") is None


def test_another_processor_or_form_or_text_misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = row_softmax(20, 30, 8)
    store = NativeStore(Store(tmp_path))
    store.put("scheduled", text, compile_scheduled(text, "softmax"))
    found = store.get("scheduled", text.replace("@softmax(", "@k4_softmax("), "k4_softmax")
    assert found is not None and found.name == "k4_softmax"
    assert_softmax(found)
    assert store.get("rendered", text, "softmax") is None
    assert store.get("scheduled", row_softmax(20, 30, 4), "softmax") is None
    monkeypatch.setattr(native_store, "target", lambda: "x86_64-unknown-linux-gnu i486 -sse")
    assert store.get("scheduled", text, "softmax") is None


def test_a_damaged_entry_is_compiled_again(tmp_path: Path):
    text = row_softmax(20, 30, 8)
    KernelCache(NativeStore(Store(tmp_path))).get("scheduled", text, "softmax")
    (path,) = tmp_path.glob("*.entry")
    path.write_bytes(path.read_bytes()[:-10])
    cache = KernelCache(NativeStore(Store(tmp_path)))
    assert_softmax(cache.get("scheduled", text, "softmax"))
    assert cache.compiled == 1
    cache = KernelCache(NativeStore(Store(tmp_path)))
    assert_softmax(cache.get("scheduled", text, "softmax"))
    assert cache.compiled == 0
