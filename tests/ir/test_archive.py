"""A journey in a file: whole or refused, the same when opened, and of use without PyTorch."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from simulator.errors import NoFolder
from simulator.machine import dram_file
from tests.programs import MLP
from workbench.ground import errors
from workbench.ir import archive


@pytest.fixture(scope="module")
def journey() -> wb.Journey:
    torch.manual_seed(0)
    return wb.trace(MLP(24, 40, 8).eval(), torch.randn(16, 24), machine="edge-8x8")


@pytest.fixture(scope="module")
def saved(journey: wb.Journey, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "mlp.journey"
    journey.save(path)
    return path


def test_a_loaded_journey_is_the_saved_one(journey: wb.Journey, saved: Path):
    loaded = wb.load(saved)
    assert loaded.captured.record == journey.captured.record
    assert loaded.lowered.record == journey.lowered.record
    assert loaded.rendered.record == journey.rendered.record
    assert loaded.scheduled.record == journey.scheduled.record
    assert loaded.simulated.record.digest() == journey.simulated.record.digest()
    assert loaded.machine == journey.machine and loaded.seconds == journey.seconds
    for mine, theirs in zip(
        (loaded.captured, loaded.lowered, loaded.rendered, loaded.scheduled, loaded.simulated),
        (journey.captured, journey.lowered, journey.rendered, journey.scheduled, journey.simulated),
        strict=True,
    ):
        assert mine.text() == theirs.text() and mine.html() == theirs.html() and mine.table.equals(theirs.table)


def test_simulated_again_it_takes_the_same_cycles_and_keeps_its_invariants(journey: wb.Journey, saved: Path):
    loaded = wb.load(saved)
    again = wb.simulate(loaded.lowered, loaded.scheduled, machine=loaded.machine)
    assert again.record.digest() == journey.simulated.record.digest()
    loaded.simulated.record.invariants()


def test_the_file_holds_no_weights(saved: Path):
    weights = sum(p.numel() * 4 for p in MLP(24, 40, 8).parameters())
    with zipfile.ZipFile(saved) as file:
        names = set(file.namelist())
    kernels = len(wb.load(saved).scheduled.record.kernels)
    programs = {f"programs/{number}.npz" for number in range(kernels)}
    assert names == {"journey.json", "lowered.json", "rendered.json", "scheduled.json", "trace.npz"} | programs
    assert weights > 0  # and none of these members holds a tensor: their schemas are those of the records


def test_equal_journeys_make_equal_files_and_a_second_save_replaces_the_first(journey: wb.Journey, tmp_path: Path):
    first, second = tmp_path / "a", tmp_path / "b"
    journey.save(first)
    second.write_text("something else")
    journey.save(second)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_file_whose_parts_pack_better_than_its_bound_is_made_heavier_and_opens(
    journey: wb.Journey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(archive, "_TIMES", 3)
    monkeypatch.setattr(archive, "most_bytes", lambda size: 3 * size)
    journey.save(tmp_path / "heavy.journey")
    assert wb.load(tmp_path / "heavy.journey").simulated.cycles == journey.simulated.cycles
    with zipfile.ZipFile(tmp_path / "heavy.journey") as file:
        assert set(file.read("room")) == {0}


def _within(count: int, x: torch.Tensor) -> Any:
    return x if count == 0 else (_within(count - 1, x),)


def _inside(given: Any) -> torch.Tensor:
    return given + 1 if isinstance(given, torch.Tensor) else _inside(given[0])


@pytest.mark.parametrize(
    ("function", "given", "told"),
    [
        (_inside, _within(60, torch.ones(4)), "nested more than 100 deep"),
        (lambda x: (x + 1, 10**30), torch.ones(4), "lowered.captured.tree.items.1..constant"),
        (lambda given: given["\ud800"] + 1, {"\ud800": torch.ones(4)}, "half a character"),
    ],
    ids=["deep", "large", "half a character"],
)
def test_what_no_file_may_hold_is_told_when_it_is_saved(function: Any, given: Any, told: str, tmp_path: Path):
    made = wb.trace(function, given, machine="edge-8x8")
    with pytest.raises(errors.JourneyNotSaved, match=f"could not be opened again.*{told}"):
        made.save(tmp_path / "no.journey")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        pytest.param(lambda x: torch.softmax(x, 1), (32768, 512), marks=pytest.mark.test_all),
        (lambda x: x[1:] + 1, (40, 7)),
    ],
    ids=["equal tiles by the thousand", "a slice to the end"],
)
def test_a_journey_of_any_size_opens(function: Callable[..., Any], shape: tuple[int, ...], tmp_path: Path):
    made = wb.trace(function, torch.randn(shape), machine="edge-8x8")
    made.save(tmp_path / "made.journey")
    assert wb.load(tmp_path / "made.journey").simulated.cycles == made.simulated.cycles


def test_a_write_that_fails_leaves_the_old_file(
    journey: wb.Journey, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = tmp_path / "kept"
    target.write_bytes(saved.read_bytes())

    def broken(source: object, into: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(archive.os, "replace", broken)
    with pytest.raises(NoFolder, match="the disk is full"):
        journey.save(target)
    assert target.read_bytes() == saved.read_bytes() and len(list(tmp_path.iterdir())) == 1


def test_run_and_check_of_a_loaded_journey_say_that_the_function_is_not_there(saved: Path):
    loaded = wb.load(saved)
    for call, word in ((loaded.run, "run"), (loaded.check, "check")):
        with pytest.raises(
            errors.NoFunction, match=f"{word} computes with the traced function.*mlp.journey has neither"
        ):
            call(torch.randn(16, 24))


def test_a_loaded_journey_is_scheduled_for_another_machine_from_its_records(journey: wb.Journey, saved: Path):
    elsewhere = wb.load(saved).with_(machine="tpu-v3")
    assert elsewhere.simulated.record.digest() == journey.with_(machine="tpu-v3").simulated.record.digest()


def rewritten(path: Path, into: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The file with some of its members changed, the zip around them whole."""
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    with zipfile.ZipFile(into, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return into


def manifest_with(**changes: object) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members["journey.json"]) | changes
        members["journey.json"] = json.dumps(manifest).encode()

    return change


def without(name: str) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.__delitem__(name)


def edited(name: str, old: bytes, new: bytes) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        assert old in members[name]
        members[name] = members[name].replace(old, new, 1)

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            manifest_with(version=7),
            errors.JourneyFileVersion,
            "a journey of version 7 .*, written by aten-workbench .*; this version reads version 1 .*Trace and save it",
        ),
        (manifest_with(schema="0" * 16), errors.JourneyFileVersion, "records '0000000000000000'"),
        (manifest_with(format="other/thing"), errors.JourneyFileForeign, "of format 'other/thing'"),
        (manifest_with(seconds={}), errors.JourneyFileEdited, "journey.json no longer has its checksum"),
        (without("trace.npz"), errors.JourneyFileEdited, "trace.npz is missing"),
        (without("journey.json"), errors.JourneyFileForeign, "a zip of 'lowered.json'"),
        (edited("lowered.json", b"relu", b"gelu"), errors.JourneyFileEdited, "lowered.json no longer has its"),
        (lambda members: members.update(extra=b"1"), errors.JourneyFileEdited, "extra was added later"),
    ],
    ids=["version", "records", "format", "manifest", "missing", "no manifest", "record", "added"],
)
def test_a_file_that_is_not_what_was_saved_is_refused_with_the_reason(
    saved: Path, tmp_path: Path, change: Callable[[dict[str, bytes]], None], error: type[Exception], message: str
):
    path = rewritten(saved, tmp_path / "changed.journey", change)
    with pytest.raises(error, match=message) as caught:
        wb.load(path)
    assert isinstance(caught.value, errors.JourneyFileError) and str(path) in str(caught.value)


def with_header(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, bytes]], None]:
    """Changes the header of the trace, and makes the checksums right again."""

    def in_members(members: dict[str, bytes]) -> None:
        with np.load(io.BytesIO(members["trace.npz"])) as file:
            arrays: dict[str, Any] = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        change(header)
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
        out = io.BytesIO()
        np.savez(out, **arrays)
        members["trace.npz"] = out.getvalue()
        manifest = json.loads(members["journey.json"])
        manifest.pop("checksum")
        manifest["members"]["trace.npz"] = hashlib.sha256(members["trace.npz"]).hexdigest()
        text = json.dumps(manifest, separators=(",", ":")).encode()
        manifest["checksum"] = hashlib.sha256(text).hexdigest()
        members["journey.json"] = json.dumps(manifest, separators=(",", ":")).encode()

    return in_members


@pytest.fixture
def with_memory_file(tmp_path: Path) -> tuple[wb.Journey, Path, Path]:
    """A journey on a machine with a memory of its own, where it is saved, and the memory's file."""
    memory, path = tmp_path / "mine.toml", tmp_path / "banks.journey"
    memory.write_text((Path(dram_file.__file__).parent / "shipped_memories" / "DDR4_3200AA.toml").read_text())
    machine = wb.machine("edge-8x8", memory="banked", dram_timing=str(memory))
    journey = wb.trace(lambda x: x.t().contiguous(), torch.randn(64, 60), machine=machine)
    journey.save(path)
    return journey, path, memory


@pytest.mark.parametrize("then", ["gone", "other"])
def test_a_journey_has_the_memory_of_its_machine_with_it(with_memory_file: tuple[wb.Journey, Path, Path], then: str):
    journey, path, memory = with_memory_file
    if then == "gone":
        memory.unlink()
    else:
        memory.write_text(memory.read_text().replace("precharge = ", "precharge = 10"))
    loaded = wb.load(path)
    assert loaded.machine == journey.machine
    again = wb.simulate(loaded.lowered, loaded.scheduled, machine=loaded.machine.with_())
    assert again.record.digest() == loaded.simulated.record.digest() == journey.simulated.record.digest()
    loaded.simulated.record.invariants()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda memory: memory.update(banks=3), "banks = 3: expected a power of two"),
        (lambda memory: memory.update(refresh=10**9), "cycles between two refreshes, of which"),
        (lambda memory: memory.update(rows="many"), "rows is 'many'"),
        (lambda memory: memory.clear(), "Memory has the fields"),
    ],
    ids=["figure", "together", "type", "none"],
)
def test_a_memory_that_no_file_could_give_is_refused(
    with_memory_file: tuple[wb.Journey, Path, Path],
    tmp_path: Path,
    change: Callable[[dict[str, Any]], None],
    message: str,
):
    changed = with_header(lambda header: change(header["machine"]["memory"]))
    with pytest.raises(errors.JourneyFileEdited, match=f"trace.npz: .*{message}") as caught:
        wb.load(rewritten(with_memory_file[1], tmp_path / "crafted.journey", changed))
    assert "BytesIO" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda machine: machine.update(memory=None), r"dram_timing is the file .*, and there is no memory"),
        (
            lambda machine: machine["figures"].update(dram_timing="DDR4_3200AA"),
            "there is a memory, and dram_timing is 'DDR4_3200AA'",
        ),
    ],
    ids=["a memory file without its memory", "a memory beside the name of a shipped one"],
)
def test_a_machine_holds_the_memory_that_it_names(
    with_memory_file: tuple[wb.Journey, Path, Path], tmp_path: Path, change: Callable[[Any], None], message: str
):
    changed = with_header(lambda header: change(header["machine"]))
    with pytest.raises(errors.JourneyFileEdited, match=message):
        wb.load(rewritten(with_memory_file[1], tmp_path / "crafted.journey", changed))


@pytest.mark.parametrize("part", [0, 50, 0.5, 0.99])
def test_a_file_that_is_cut_off_is_refused_as_such(saved: Path, tmp_path: Path, part: float):
    data = saved.read_bytes()
    path = tmp_path / "short.journey"
    path.write_bytes(data[: part if isinstance(part, int) else int(len(data) * part)])
    with pytest.raises(errors.JourneyFileTruncated, match="the rest is missing"):
        wb.load(path)


def test_what_follows_the_end_of_a_file_is_refused(saved: Path, tmp_path: Path):
    path = tmp_path / "longer.journey"
    path.write_bytes(saved.read_bytes() + b"more")
    with pytest.raises(errors.JourneyFileEdited, match="there are bytes after the end"):
        wb.load(path)


def test_flipped_bits_are_found_wherever_they_matter(saved: Path, tmp_path: Path):
    data = saved.read_bytes()
    path, original, found = tmp_path / "flipped.journey", wb.load(saved), 0
    for place in range(200, len(data), len(data) // 20):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        try:
            loaded = wb.load(path)
        except errors.JourneyFileError:
            found += 1
        else:  # a bit that says nothing about the content: a date in the zip's own headers, for one
            assert loaded.lowered.record == original.lowered.record
            assert loaded.simulated.cycles == original.simulated.cycles
    assert found >= 15


@pytest.mark.parametrize("content", [b"hello", b"{}", b"PK\x03\x04" + b"x" * 100], ids=["text", "json", "other zip"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(errors.JourneyFileForeign, match=r"wb\.load opens files that j\.save"):
        wb.load(path)
    with pytest.raises(FileNotFoundError, match=r"wb\.load opens .* no file '.*/others'; did you mean 'other'\?"):
        wb.load(tmp_path / "others")
    with pytest.raises(errors.JourneyFileForeign, match="it is a folder"):
        wb.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="the path is empty"):
        wb.load("")


def test_a_device_or_a_pipe_is_refused_before_it_is_read(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for path, kind in (("/dev/full", "a device"), (tmp_path / "link", "a device"), (tmp_path / "pipe", "a pipe")):
        with pytest.raises(errors.JourneyFileForeign, match=f"is not a journey: it is {kind}"):
            wb.load(path)
