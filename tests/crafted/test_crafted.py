"""Files that somebody crafted: each opens and shows everything, or is one told error; nothing hangs or takes it all."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench as wb
from simulator import Trace
from simulator.analysis.critical_path import critical_path_of
from simulator.errors import FileFormatError, MachineError, SimulatorError
from simulator.files import unpacking
from tests.crafted.judge import BAD, Opener, originals, verdicts
from workbench.ground import errors
from workbench.ir import AtenGraph, KernelGraph, RecordFormatError

SAMPLE = 48


@pytest.fixture(scope="module")
def opener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    with Opener(originals(tmp_path_factory.mktemp("whole"), ["perceptron", "embedding", "broken"])) as made:
        yield made


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_crafted_files_is_shown_or_refused(opener: Opener, tmp_path: Path):
    """`make crafted` draws 2,000; benchmarks/data/crafted.txt has what it last found."""
    found = [verdict for _, verdict in verdicts(opener, range(10_000, 10_000 + SAMPLE), tmp_path, seconds=120)]
    assert not [each for each in found if each.outcome in BAD]
    assert max(each.megabytes for each in found) < 500
    assert {each.outcome for each in found} == {"told", "shown"}


@pytest.mark.test_all
def test_a_sample_of_other_crafted_files_is_shown_or_refused():
    """Mappings, tuned tables, machines, memories and traces; `make crafted` draws more."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.crafted.other_files", "50", "--seed", "10000"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stdout + made.stderr
    assert re.search(r"^50 files from seed 10,?000: \{.*'told': \d+", made.stdout) and "'shown'" in made.stdout


@pytest.fixture(scope="module")
def whole(opener: Opener) -> bytes:
    return opener.originals[0]


def changed(data: bytes, change: Callable[[dict[str, bytes]], None], *, signed: bool = True) -> bytes:
    """The file with other members, their checksums right."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    manifest = json.loads(members["journey.json"])
    manifest.pop("checksum")
    if signed:
        manifest["members"] = {name: hashlib.sha256(members[name]).hexdigest() for name in members if name[0] != "j"}
    text = json.dumps(manifest, separators=(",", ":")).encode()
    manifest["checksum"] = hashlib.sha256(text).hexdigest()
    members["journey.json"] = json.dumps(manifest, separators=(",", ":")).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return out.getvalue()


def array_with(member: str, name: str, index: Any, value: int) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        with np.load(io.BytesIO(members[member])) as file:
            arrays = {each: file[each] for each in file.files}
        arrays[name][index] = value
        out = io.BytesIO()
        np.savez_compressed(out, **arrays)
        members[member] = out.getvalue()

    return change


def text_with(member: str, old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    def change(members: dict[str, bytes]) -> None:
        assert old in members[member].decode()
        members[member] = members[member].decode().replace(old, new, 1).encode()

    return change


TRACE, PROGRAM = "trace.npz", "programs/0.npz"
WRONG = {
    "a start that its constraints contradict": (array_with(TRACE, "start", 1, 5), "span 1 starts at 5"),
    "a blocker that is not there": (array_with(TRACE, "blocker", 3, 10**6), "blocker of span 3 is 1000000"),
    "a unit that is not there": (array_with(TRACE, "unit", 0, 99), "unit holds values"),
    "spans of another launch": (array_with(TRACE, "launch", 0, 1), "not stand in order|instructions"),
    "origins that are not there": (array_with(TRACE, "origin", 0, 77), "has an origin that the launch does not have"),
    "a kind that is not the instruction's": (array_with(TRACE, "kind", 0, 8), "not those of its instructions"),
    "an operand outside of its tensor": (array_with(PROGRAM, "offset", 0, 10**9), "reaches bytes"),
    "an op that is not there": (array_with(PROGRAM, "op", 0, 999), r"op\[0\] = 999"),
    "a matmul of two operands": (array_with(PROGRAM, "opcode", 0, 5), "has 2 operands, expected 3"),
    "a launch that waits for itself": (text_with("scheduled.json", '"after":[0]', '"after":[1]'), "waits for launch 1"),
    "a node that reads what is not there": (text_with("lowered.json", '"value":"relu"', '"value":"rely"'), "rely"),
    "a number of a hundred digits": (text_with("lowered.json", '"line":', f'"line":{"9" * 100}'), "line: 9999"),
    "half a character": (text_with("lowered.json", '"name":"', '"name":"\\ud800'), "half a character"),
    "lists in lists in lists": (text_with("lowered.json", '"args":[', f'"args":[{"[" * 99}{"]" * 99},'), "100 deep"),
    "more lists than calls": (text_with("lowered.json", '"args":[', f'"args":[{"[" * 9999}{"]" * 9999},'), "of ours"),
    "an option of no form": (text_with("journey.json", '"options":{}', '"options":{"mapping":5}'), "mapping=5 is none"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_does_not_fit_together_is_refused_when_the_file_is_opened(whole: bytes, tmp_path: Path, what: str):
    change, told = WRONG[what]
    path = tmp_path / "crafted.journey"
    path.write_bytes(changed(whole, change))
    with pytest.raises(errors.JourneyFileEdited, match=told):
        wb.load(path)


def more(count: int) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({"lowered.json": members["lowered.json"] + b" " * count})


def test_a_small_file_that_unpacks_to_much_is_refused_before_it_is_unpacked(whole: bytes, tmp_path: Path):
    path = tmp_path / "bomb.journey"
    path.write_bytes(changed(whole, more(100_000_000)))
    assert path.stat().st_size < 500_000
    with pytest.raises(errors.JourneyFileTooLarge, match=r"it unpacks to 1\d\d,\d\d\d,\d\d\d bytes; at most"):
        wb.load(path)


def test_a_member_that_says_it_is_shorter_is_read_no_further(whole: bytes, tmp_path: Path):
    path, size = tmp_path / "lies.journey", 30_000_000
    data = changed(whole, lambda members: members.update({"lowered.json": bytes(size)}))
    path.write_bytes(data.replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
    with pytest.raises(errors.JourneyFileError):
        wb.load(path)


def test_a_member_that_the_manifest_does_not_name_is_not_unpacked(
    whole: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, read, member = tmp_path / "more.journey", list[str](), unpacking.member

    def noted(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
        read.append(info.filename)
        return member(file, info)

    monkeypatch.setattr(unpacking, "member", noted)
    path.write_bytes(changed(whole, lambda members: members.update(extra=b"1"), signed=False))
    with pytest.raises(errors.JourneyFileEdited, match="extra was added later"):
        wb.load(path)
    assert read == ["journey.json"]


def test_an_array_that_says_it_is_huge_makes_no_room_for_itself():
    out = io.BytesIO()
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    out.seek(0)
    with pytest.raises(unpacking.NotOurs, match="no array of int64"):
        unpacking.arrays_of(out)
    out.seek(0)
    with pytest.raises(FileFormatError):
        Trace.load(out)


def test_a_critical_path_that_goes_in_a_circle_is_told(whole: bytes, tmp_path: Path):
    path = tmp_path / "whole.journey"
    path.write_bytes(whole)
    trace = wb.load(path).simulated.record
    blocker = trace.blocker.copy()
    rows = np.flatnonzero((trace.cause > 1) & (trace.launch == trace.launch[-1]))
    blocker[rows] = trace.instr[rows]  # each waited for itself
    with pytest.raises(SimulatorError, match="never comes to its begin"):
        critical_path_of(replace(trace, blocker=blocker))


GRAPHS = {
    "an operand that nothing makes": ('"value": "add"', '"value": "ade"', "'ade', which nothing before it makes"),
    "an op without a namespace": ("aten.relu.default", "relu", "names no overload"),
    "an extent below zero": ('"shape": [\n     4,', '"shape": [\n     -4,', "which no tensor is"),
    "an element type of no name": ('"dtype": "f32"', '"dtype": "f 32"', "which no tensor is"),
    "an input of no kind": ('"kind": "user"', '"kind": "users"', "of kind 'users'"),
    "a result that is not there": ('"outputs": [\n   "relu"', '"outputs": [\n   "rely"', "no value 'rely'"),
}


@pytest.mark.parametrize("what", GRAPHS)
def test_a_graph_that_makes_no_sense_is_refused(what: str):
    journey = wb.trace(lambda x: torch.relu(x + 1), torch.randn(4, 4), machine="edge-8x8")
    old, new, told = GRAPHS[what]
    text = journey.captured.record.to_json()
    assert AtenGraph.from_json(text) == journey.captured.record and old in text
    with pytest.raises(RecordFormatError, match=told):
        AtenGraph.from_json(text.replace(old, new, 1))
    lowered = journey.lowered.record.to_json()
    assert KernelGraph.from_json(lowered) == journey.lowered.record
    with pytest.raises(RecordFormatError, match="was not captured"):
        KernelGraph.from_json(lowered.replace('"parent": "relu"', '"parent": "gelu"'))


def test_nodes_in_another_order_are_refused():
    graph = wb.trace(lambda x: torch.relu(x + 1), torch.randn(4, 4), machine="edge-8x8").captured.record
    with pytest.raises(RecordFormatError, match="which nothing before it makes"):
        AtenGraph.from_json(replace(graph, nodes=graph.nodes[::-1]).to_json())


@pytest.mark.parametrize("figures", [{"cores": 10**9}, {"dma_queues": 4000, "cores": 4000}, {"mesh_columns": 10**6}])
def test_a_machine_of_more_units_than_can_be_listed_is_refused(figures: dict[str, int]):
    with pytest.raises(MachineError, match="at most"):
        wb.machine("tpu-v3", **figures)
