"""Machine code on disk: whatever is wrong with it, it is compiled again and takes the place of what was there."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba.core import codegen  # pyright: ignore[reportMissingTypeStubs]

from simulator import compiled as compiling
from simulator.errors import CacheWarning
from simulator.files import machine_code_cache
from tests.fresh_process import python


def half_of(number: int) -> int:
    return number // 2


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Calls the function in a new cache of its own, as another process would; whether its code was there."""
    monkeypatch.setattr(compiling, "_writable_folder", lambda: folder)
    function: Any = compiling.compiled(half_of)
    assert function(9) == 4
    return bool(function.stats.cache_hits)


def cut(path: Path, kept: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])


def change(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(bytes(whole))


def become_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "within").write_text("something")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut short": lambda path: cut(path, 0.5),
    "one byte missing": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "random": lambda path: path.write_bytes(b"c" + os.urandom(500)),
    "one bit changed": change,
    "a folder": become_a_folder,
    "gone": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("file", ["*.nbi", "*.nbc"])
def test_a_damaged_entry_is_absent_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, damage: str
) -> None:
    assert not asked(tmp_path, monkeypatch)
    assert asked(tmp_path, monkeypatch)
    (path,) = tmp_path.rglob(file)
    DAMAGE[damage](path)
    assert not asked(tmp_path, monkeypatch)
    assert asked(tmp_path, monkeypatch)


def test_machine_code_in_the_place_of_other_code_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that write an index at the same time may give their code the same name."""
    asked(tmp_path, monkeypatch)
    key = machine_code_cache.caching.Cache._index_key
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(machine_code_cache.caching.Cache, "_index_key", lambda *given: (*key(*given), "another"))
        (index,) = tmp_path.rglob("*.nbi")
        before = index.read_bytes()
        index.unlink()
        asked(tmp_path, monkeypatch)
    index.write_bytes(before)
    assert not asked(tmp_path, monkeypatch)
    assert asked(tmp_path, monkeypatch)


@pytest.mark.test_all
def test_every_index_emptied_is_compiled_anew_in_another_process(tmp_path: Path) -> None:
    script = (
        "from fractions import Fraction;"
        "from simulator.memory.bus import grant as f, idle_bus;"
        "print(f(idle_bus(0, Fraction(1)), 7), sum(f.stats.cache_hits.values()))"
    )
    told = list[str]()
    for damaged in (False, True, False):
        for path in tmp_path.rglob("*.nbi") if damaged else ():
            path.write_bytes(b"")
        told.append(python("-c", script, ATEN_WORKBENCH_CACHE=str(tmp_path)).strip())
    assert told == ["7 0", "7 0", "7 1"]


def test_a_full_disk_is_one_warning_and_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(machine_code_cache._FunctionCache, "writable", True)
    with monkeypatch.context() as disk:
        disk.setattr(machine_code_cache.caching.IndexDataCacheFile, "_save_data", full)
        with pytest.warns(CacheWarning, match=r"No space left on device.*ATEN_WORKBENCH_CACHE names another folder"):
            asked(tmp_path, monkeypatch)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not asked(tmp_path, monkeypatch)


def test_a_file_in_the_place_of_the_folder_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_code_cache._FunctionCache, "writable", True)
    asked(tmp_path, monkeypatch)
    (within,) = tmp_path.iterdir()
    shutil.rmtree(within)
    within.write_text("in the way")
    with pytest.warns(CacheWarning, match="is not kept on disk"):
        assert not asked(tmp_path, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not asked(tmp_path, monkeypatch)


def test_code_that_numba_cannot_hand_over_is_run_and_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: object) -> bytes:
        raise RuntimeError(f"no compiled object yet for {self}")

    with monkeypatch.context() as compiler:
        compiler.setattr(codegen.CPUCodeLibrary, "_get_compiled_object", none)
        assert not asked(tmp_path, monkeypatch)
    assert not asked(tmp_path, monkeypatch)  # compiled again, and kept now
    assert asked(tmp_path, monkeypatch)
