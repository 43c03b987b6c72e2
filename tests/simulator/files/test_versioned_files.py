"""Programs and traces as files: whole, of the right version, or refused."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import socket
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simulator import Launched, TileProgram, Trace, load_machine, simulate
from simulator.analysis.critical_path import waterfall_of
from simulator.analysis.stalls import stalls_of
from simulator.errors import FileFormatError, NoFile, NoFolder, SimulatorError
from tests.simulator.build import elementwise, matmul_chain

Array = npt.NDArray[Any]
Damage = Callable[[Path], None]


@pytest.fixture
def program_file(tmp_path: Path) -> Path:
    path = tmp_path / "k.npz"
    matmul_chain(32, 32, 64, 16).save(path)
    return path


def arrays_of(path: Path) -> dict[str, Array]:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def change_header(path: Path, change: Callable[[dict[str, object]], None]) -> None:
    arrays = arrays_of(path)
    header = json.loads(arrays["header"].tobytes())
    change(header)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez(path, **arrays)  # type: ignore[arg-type]


def test_a_program_comes_back_as_it_was(program_file: Path) -> None:
    loaded = TileProgram.load(program_file)
    assert loaded == matmul_chain(32, 32, 64, 16)
    assert loaded != elementwise()
    assert loaded.instruction(5) == matmul_chain(32, 32, 64, 16).instruction(5)
    assert [path.name for path in program_file.parent.iterdir()] == ["k.npz"]


def test_a_failed_write_leaves_the_old_file(program_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        elementwise().save(program_file)
    assert TileProgram.load(program_file).kernel == "k"
    assert [path.name for path in program_file.parent.iterdir()] == ["k.npz"]


def test_a_folder_is_not_replaced_by_a_file(program_file: Path) -> None:
    with pytest.raises(NoFolder, match="it is a folder"):
        elementwise().save(program_file.parent)


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    kept, link, chain = tmp_path / "there" / "k.npz", tmp_path / "k.npz", tmp_path / "chain.npz"
    link.symlink_to(Path("there") / "k.npz")
    chain.symlink_to("k.npz")
    for path, program in ((link, elementwise()), (chain, matmul_chain(32, 32, 64, 16))):
        program.save(path)
        assert link.is_symlink() and chain.is_symlink()
        assert TileProgram.load(kept) == program
    assert [path.name for path in kept.parent.iterdir()] == ["k.npz"]


def test_a_link_to_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "away").symlink_to(tmp_path / "not there" / "k.npz")
    with pytest.raises(
        NoFolder, match=r"away cannot be written: it is a link to .*, and there is no folder .*not there"
    ):
        elementwise().save(tmp_path / "away")
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(NoFolder, match="its links lead in a circle"):
        elementwise().save(tmp_path / "round")


def test_what_is_no_regular_file_is_refused_and_stays(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(tmp_path):  # a long path is no name of a socket
        listening.bind("socket")
        for path, kind in ((pipe, "a pipe"), (link, "a pipe"), (tmp_path / "socket", "a socket")):
            with pytest.raises(NoFolder, match=f"{path.name} cannot be written: it is {kind}"):
                elementwise().save(path)
            with pytest.raises(FileFormatError, match=f"{path.name}: not a whole .* file: it is {kind}"):
                TileProgram.load(path)
    with pytest.raises(FileFormatError, match="it is a device"):
        TileProgram.load("/dev/zero")
    with pytest.raises(NoFile, match="the path is empty"):
        TileProgram.load("")
    assert pipe.is_fifo() and link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "socket"]


@pytest.mark.parametrize("rights", [0o600, 0o640, 0o666])
def test_a_file_that_is_there_keeps_its_rights(program_file: Path, rights: int) -> None:
    program_file.chmod(rights)
    elementwise().save(program_file)
    assert stat.S_IMODE(program_file.stat().st_mode) == rights
    assert TileProgram.load(program_file) == elementwise()


def test_a_new_file_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    elementwise().save(tmp_path / "k.npz")
    assert (tmp_path / "k.npz").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("step", ["chmod", "fsync", "replace"])
def test_a_full_disk_is_told_and_leaves_the_old_file(
    program_file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, step, full)
    with pytest.raises(NoFolder, match=r"k\.npz cannot be written: No space left on device"):
        elementwise().save(program_file)
    assert TileProgram.load(program_file).kernel == "k"
    assert [path.name for path in program_file.parent.iterdir()] == ["k.npz"]


def test_what_a_killed_writer_left_goes_with_the_next_one_but_not_what_is_being_written(tmp_path: Path) -> None:
    code = (
        "import os, sys; from simulator.files.versioned_files import replace_file;"
        "os.fsync = lambda _: os._exit(9); replace_file(sys.argv[1], b'half')"
    )
    mine, other = tmp_path / "k.npz", tmp_path / "k2.npz"
    left = list[Path]()
    for path in (mine, mine, other):
        before = set(tmp_path.iterdir())
        root = Path(__file__).parents[3]
        assert subprocess.run([sys.executable, "-c", code, str(path)], cwd=root).returncode == 9
        left += set(tmp_path.iterdir()) - before
    old, young, of_another = left
    for path in (old, of_another):
        os.utime(path, (time.time() - 7200,) * 2)
    elementwise().save(mine)
    assert set(tmp_path.iterdir()) == {mine, young, of_another}


def test_every_name_that_the_system_takes_is_taken(tmp_path: Path) -> None:
    path = tmp_path / ("k" * 251 + ".npz")
    for program in (elementwise(), matmul_chain(32, 32, 64, 16)):
        program.save(path)
        assert TileProgram.load(path) == program
    with pytest.raises(NoFolder, match="cannot be written: File name too long"):
        elementwise().save(tmp_path / ("k" * 252 + ".npz"))


def test_an_empty_path_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NoFolder, match="nothing can be written: the path is empty"):
        elementwise().save("")


def test_a_trace_is_no_program(program_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    simulate([Launched("k", elementwise(), (0, 0))], load_machine("tpu-v3")).save(path)
    with pytest.raises(FileFormatError, match="found 'aten-workbench/trace'"):
        TileProgram.load(path)
    with pytest.raises(FileFormatError, match="found 'aten-workbench/tile-program'"):
        Trace.load(program_file)


def cut(keep: float) -> Damage:
    def damage(path: Path) -> None:
        whole = path.read_bytes()
        path.write_bytes(whole[: int(keep * len(whole)) if 0 < keep < 1 else int(keep)])

    return damage


def flip_a_byte(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(io.BytesIO(bytes(whole))) as archive:
        entry = archive.getinfo("offset.npy")
    whole[entry.header_offset + 60 + entry.compress_size // 2] ^= 0xFF
    path.write_bytes(bytes(whole))


def with_array(name: str, change: Callable[[Array], Array] | None) -> Damage:
    """Changes an array of the file, or leaves it out."""

    def damage(path: Path) -> None:
        arrays = arrays_of(path)
        old = arrays.pop(name)
        np.savez(path, **(arrays | ({name: change(old)} if change else {})))  # type: ignore[arg-type]

    return damage


def with_key(key: str) -> Damage:
    """Leaves out a key of the header, or adds it."""
    return lambda path: change_header(
        path, lambda header: header.pop(key) if key in header else header.update({key: 1})
    )


DAMAGED: dict[str, tuple[Damage, str]] = {
    **{f"cut to {keep}": (cut(keep), "not a whole") for keep in (0, 10, 0.5, 0.9, -1)},
    "a flipped byte": (flip_a_byte, "not a whole"),
    "a short array": (with_array("offset", lambda a: a[:-1]), "offset is int64"),
    "a narrow array": (with_array("shape", lambda a: a[:, :4]), "shape is int64"),
    "another type": (with_array("op", lambda a: a.astype(np.int64)), "op is int64"),
    "falling starts": (with_array("operand_start", lambda a: a[::-1].copy()), "operand_start does not divide"),
    "no array": (with_array("dependence", None), "missing: \\['dependence'\\]"),
    "a pickle": (with_array("offset", lambda _: np.array([{"a": 1}], object)), "not a whole"),
    **{f"the key {key}": (with_key(key), "not that of a tile program") for key in ("kernel", "ops", "surplus")},
    "another version": (
        lambda path: change_header(path, lambda header: header.update(version=99)),
        r"expected aten-workbench/tile-program version 1, found .* version 99\. Make the file again with this",
    ),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(program_file: Path, name: str) -> None:
    damage, message = DAMAGED[name]
    damage(program_file)
    with pytest.raises(FileFormatError, match=message):
        TileProgram.load(program_file)


def test_a_missing_file_is_told_with_what_is_there(program_file: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file '.*/k2.npz'; did you mean 'k.npz'\?"):
        TileProgram.load(program_file.parent / "k2.npz")
    with pytest.raises(SimulatorError, match=r"there is no folder '.*/elsewhere'"):
        Trace.load(program_file.parent / "elsewhere" / "k.npz")


def test_a_trace_that_is_cut_off_or_of_another_version_is_refused_and_one_that_cannot_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = simulate([Launched("k", elementwise(), (0, 0))], load_machine("tpu-v3"))
    path = tmp_path / "t.npz"
    trace.save(path)
    change_header(path, lambda header: header.update(version=10))
    with pytest.raises(FileFormatError, match=r"expected aten-workbench/trace version 1, found .* version 10\. Make"):
        Trace.load(path)
    trace.save(path)
    change_header(path, lambda header: header["machine"]["figures"].pop("dram_tile"))  # type: ignore[index]
    with pytest.raises(FileFormatError, match="dram_tile"):
        Trace.load(path)
    trace.save(path)
    for keep in (0, 100, path.stat().st_size // 2, path.stat().st_size - 1):
        path.write_bytes(trace.to_bytes()[:keep])
        with pytest.raises(FileFormatError, match=r"t\.npz: not a whole aten-workbench/trace file"):
            Trace.load(path)
    path.unlink()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(NoFolder, match=r"t\.npz cannot be written: disk full"):
        trace.save(path)
    assert list(tmp_path.iterdir()) == []


def test_a_trace_comes_back_without_its_programs(tmp_path: Path) -> None:
    launches = [Launched("one", elementwise(), (0, 4096)), Launched("two", matmul_chain(32, 32, 64, 16), (0, 1, 2))]
    trace = simulate(launches, load_machine("edge-8x8", dma_queues=3))
    trace.save(tmp_path / "t.npz")
    loaded = Trace.load(tmp_path / "t.npz")
    assert loaded.digest() == trace.digest()
    assert loaded.machine == trace.machine
    assert loaded.columns() == trace.columns()
    assert stalls_of(loaded) == stalls_of(trace)
    assert waterfall_of(loaded) == waterfall_of(trace)
    with pytest.raises(SimulatorError, match="loaded without its programs"):
        loaded.invariants()


def test_a_trace_with_an_unknown_unit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    simulate([Launched("k", elementwise(), (0, 0))], load_machine("tpu-v3")).save(path)
    arrays = arrays_of(path)
    arrays["unit"] = arrays["unit"] + 100
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(FileFormatError, match="unit holds values that are not between 0 and 11"):
        Trace.load(path)
