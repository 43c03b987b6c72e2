"""A table of tuned mappings: later compiles use it, on this machine and with this version alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from workbench.ground.errors import BadOption, MappingFileError, TunedTableError


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ w) @ w, 1)


INPUTS = torch.randn(40, 24), torch.randn(24, 24)


@pytest.fixture(scope="module")
def answer() -> Any:
    return wb.tune(program, *INPUTS, machine="edge-8x8", budget=20)


@pytest.fixture
def table(answer: Any, tmp_path: Path) -> Path:
    answer.save(tmp_path / "tuned.json")
    return tmp_path / "tuned.json"


def test_later_compiles_use_it_and_say_so(answer: Any, table: Path):
    j = wb.trace(program, *INPUTS, machine="edge-8x8", tuned=str(table))
    assert j.simulated.cycles == answer.journey.simulated.cycles and j.check().ok
    for kernel in j.scheduled.record.kernels:
        if kernel.kernel in answer.mappings:
            assert kernel.mapping.reason.startswith(f"{table}: tuned, ") and "% fewer cycles" in kernel.mapping.reason
        else:
            assert kernel.mapping.reason.endswith(f"{table} has no entry for it")
    whole = json.loads(table.read_text())
    assert whole["machine"] == "edge-8x8" and len(whole["entries"]) == len(answer.mappings) > 0


@pytest.mark.test_all
def test_a_kernel_of_another_model_of_the_same_ops_and_shapes_matches(answer: Any, table: Path):
    other = wb.trace(lambda a, b: (torch.softmax(a @ b, 1), a + 1), *INPUTS, machine="edge-8x8", tuned=table)
    kernels = {each.kernel: each.mapping.reason for each in other.scheduled.record.kernels}
    entries = {each["kernel"] for each in json.loads(table.read_text())["entries"]}
    assert "k1_matmul_softmax" in entries and "tuned as k1_matmul_softmax, " in kernels["k0_matmul_softmax"]
    smaller = wb.trace(program, torch.randn(39, 24), INPUTS[1], machine="edge-8x8", tuned=table)
    assert all(reason.endswith("has no entry for it") for reason in smaller.scheduled.table.reason)


def test_what_the_user_says_comes_first(table: Path):
    j = wb.trace(program, *INPUTS, machine="edge-8x8", tuned=table, mapping={"k0": {"buffers": 1}})
    assert j.scheduled.record.kernels[0].mapping.reason == "user"
    every = j.with_(mapping={"*": {"buffers": 1}})
    assert {each.mapping.reason for each in every.scheduled.record.kernels} == {"user"}
    assert j.with_(tuned=None, mapping=None).scheduled.table.reason.str.contains("tuned").sum() == 0


def test_another_machine_has_no_match_and_says_why(table: Path):
    j = wb.trace(program, *INPUTS, machine="tpu-v3", tuned=table)
    assert all(f"{table} is for another machine, edge-8x8" in reason for reason in j.scheduled.table.reason)
    changed = j.with_(machine=wb.machine("edge-8x8", vector_lanes=16))
    assert all("another machine" in reason for reason in changed.scheduled.table.reason)


def test_torch_compile_takes_it(answer: Any, table: Path):
    compiled = torch.compile(program, backend="npu", options={"machine": "edge-8x8", "tuned": str(table)})
    assert torch.allclose(compiled(*INPUTS), program(*INPUTS), atol=1e-5)
    assert wb.last_journeys()[-1].simulated.cycles == answer.journey.simulated.cycles
    torch._dynamo.reset()


def test_a_small_gain_is_not_kept(answer: Any, tmp_path: Path):
    answer.save(tmp_path / "none.json", minimum_gain=0.99)
    assert json.loads((tmp_path / "none.json").read_text())["entries"] == []
    with pytest.raises(BadOption, match=r"minimum_gain=2\.0"):
        answer.save(tmp_path / "none.json", minimum_gain=2.0)


CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "made by another version": ({"made_by": "0.0.1"}, "made with aten-workbench 0.0.1, and this is .*Tune again"),
    "of another format version": ({"version": 2}, "a table of version 2, expected 1. Tune again"),
    "another file": ({"format": "aten-workbench/journey"}, r"expected what j\.tuned\(\)\.save\(path\) wrote"),
    "no list": ({"entries": {}}, "damaged or edited: entries is no list"),
    "an empty entry": ({"entries": [{}]}, "damaged or edited: entry 0: 'kernel' is missing"),
    "no gain": ({"minimum_gain": "all"}, "minimum_gain = 'all' is no part of the cycles"),
    "a gain that is no number": ({"minimum_gain": float("nan")}, "minimum_gain = nan is no part of the cycles"),
    "a version that is true": ({"version": True}, "a table of version True, expected 1"),
    "no machine": ({"machine": 3}, "machine = 3 is no text"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_files_that_it_does_not_understand_are_refused(change: str, table: Path):
    edit, told = CHANGES[change]
    table.write_text(json.dumps({**json.loads(table.read_text()), **edit}))
    with pytest.raises(TunedTableError, match=told):
        wb.trace(program, *INPUTS, tuned=table)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("mapping", {"tile": {}}, "expected tile, order, buffers, cores"),
        ("mapping", {"tile": {"m": 0}, "order": ["m"], "buffers": 1, "cores": {}}, "entry 0: tile of m = 0"),
        (
            "mapping",
            {"tile": {"m": 8, "n": 8}, "order": ["m", "n", "k"], "buffers": 1, "cores": {}},
            "entry 0: the tile has the dims m, n, and the order m, n, k",
        ),
        ("after", 0, r"entry 0: before = \d+ and after = 0 are no cycles and fewer ones"),
        ("after", True, r"entry 0: before = \d+ and after = True"),
        ("after", 10**9, r"entry 0: before = \d+ and after = 1000000000"),
        ("ops", [3], "entry 0: ops = 3 is no text"),
        ("ops", "matmul", "entry 0: ops = 'matmul' is no list of texts"),
        ("key", None, "key = None is no text"),
    ],
)
def test_damaged_entries_are_refused(key: str, value: Any, told: str, table: Path):
    whole = json.loads(table.read_text())
    whole["entries"][0][key] = value
    table.write_text(json.dumps(whole))
    with pytest.raises(TunedTableError, match=told):
        wb.trace(program, *INPUTS, tuned=table)


def test_two_entries_for_the_same_kernels_are_refused(table: Path):
    whole = json.loads(table.read_text())
    whole["entries"].append({**whole["entries"][0], "after": 1})
    table.write_text(json.dumps(whole))
    last = len(whole["entries"]) - 1
    with pytest.raises(TunedTableError, match=f"damaged or edited: entries 0 and {last} are for the same kernels"):
        wb.trace(program, *INPUTS, tuned=table)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"tile": {', '"tile": {"m": 1, "m": 2, ', r"line \d+: the key 'm' stands there again"),
        ('"machine": "edge', '"machine": "\\ud800edge', r"line \d+: .* has half a character in it"),
        ('"minimum_gain"', '"xx": 1,\n "minimum_gain"', "unknown key 'xx'"),
        ('"after"', '"extra": 1,\n "after"', "entry 0: unknown key 'extra'"),
    ],
)
def test_what_it_does_not_know_is_refused(old: str, new: str, told: str, table: Path):
    text = table.read_text()
    assert old in text
    table.write_text(text.replace(old, new, 1))
    with pytest.raises(TunedTableError, match=f"damaged or edited: {told}"):
        wb.trace(program, *INPUTS, tuned=table)


@pytest.mark.test_all
def test_a_journey_that_uses_a_table_saves_its_entries_again(table: Path):
    """To tune further, or another model, must not lose what was found before."""
    before = json.loads(table.read_text())["entries"]
    j = wb.trace(program, *INPUTS, machine="edge-8x8", tuned=table)
    j.tuned(budget=1).save(table)
    assert json.loads(table.read_text())["entries"] == before
    assert j.with_(tuned=table).simulated.cycles == j.simulated.cycles
    square = torch.randn(64, 64)
    other = wb.trace(lambda a: torch.relu(a @ a), square, machine="edge-8x8", tuned=table).tuned(budget=16)
    assert other.mappings
    other.save(table)
    after = json.loads(table.read_text())["entries"]
    assert after[: len(before)] == before and len(after) == len(before) + len(other.mappings)
    elsewhere = other.start.with_(machine="tpu-v3").tuned(budget=1)
    with pytest.raises(TunedTableError, match=r"holds \d+ mappings tuned for edge-8x8, and these are for tpu-v3"):
        elsewhere.save(table)
    assert json.loads(table.read_text())["entries"] == after
    elsewhere.save(table.with_name("other.json"))


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (
            '{"version": 1, "mapping": []}',
            r"no table of tuned mappings: expected .*; a file of mappings by hand is given",
        ),
        ("my own notes\n", "no table of tuned mappings: not JSON"),
        ({"version": 99}, "a table of version 99, expected 1"),
        ({"made_by": "0.0.9"}, r"made with aten-workbench 0\.0\.9, and this is "),
        ({"entries": {}}, "damaged or edited: entries is no list"),
    ],
)
def test_what_is_no_table_of_this_version_is_not_overwritten(held: Any, told: str, answer: Any, table: Path):
    text = held if isinstance(held, str) else json.dumps({**json.loads(table.read_text()), **held})
    table.write_text(text)
    with pytest.raises(
        TunedTableError, match=rf"{told}.*\. The file is left as it is: give another path, or remove it$"
    ):
        answer.save(table)
    assert table.read_text() == text


def test_an_empty_file_is_written(answer: Any, tmp_path: Path):
    (tmp_path / "empty.json").touch()
    answer.save(tmp_path / "empty.json")
    assert json.loads((tmp_path / "empty.json").read_text())["entries"]


@pytest.mark.test_all
def test_entries_that_others_saved_meanwhile_stay(answer: Any, table: Path):
    """Of two that tune at once, the one that saves last does not know what the other found."""
    before = json.loads(table.read_text())["entries"]
    square = torch.randn(64, 64)
    later = wb.trace(lambda a: torch.relu(a @ a), square, machine="edge-8x8").tuned(budget=16)
    later.save(table)
    both = json.loads(table.read_text())["entries"]
    assert both[: len(before)] == before and len(both) == len(before) + len(later.mappings) > len(before)
    answer.save(table)
    assert json.loads(table.read_text())["entries"] == both


@pytest.mark.test_all
def test_a_faster_mapping_takes_the_place_of_an_entry(table: Path):
    whole = json.loads(table.read_text())
    entry = whole["entries"][0]
    j = wb.trace(program, *INPUTS, machine="edge-8x8")
    made = j.scheduled.record.kernel(entry["kernel"]).mapping
    slow: Any = {"tile": made.tile, "order": list(made.order), "buffers": 1, "cores": {}}
    cycles = int(j.with_(mapping={entry["kernel"]: slow}).tuned(budget=1, kernels=[entry["kernel"]]).table.cycles[0])
    whole["entries"][0] = {**entry, "mapping": slow, "before": 10**6, "after": cycles}
    table.write_text(json.dumps(whole))
    again = wb.trace(program, *INPUTS, machine="edge-8x8", tuned=table).tuned(budget=20, kernels=[entry["kernel"]])
    again.save(table)
    entries = json.loads(table.read_text())["entries"]
    assert len(entries) == len(whole["entries"])
    assert entries[0]["after"] == again.table.tuned[0] < cycles and entries[0]["before"] == 10**6


@pytest.mark.test_all
def test_a_kernel_with_a_script_of_the_users_is_left_to_it(table: Path):
    plain = wb.trace(program, *INPUTS, machine="edge-8x8")
    name = json.loads(table.read_text())["entries"][0]["kernel"]
    scripts = {name: plain.scheduled.record.kernel(name).schedule}
    assert "tuned" in plain.with_(tuned=table).scheduled.record.kernel(name).mapping.reason
    both = plain.with_(tuned=table, schedule=scripts).scheduled.record.kernel(name)
    alone = plain.with_(schedule=scripts).scheduled.record.kernel(name)
    assert (both.program, both.mapping) == (alone.program, alone.mapping)
    assert both.mapping.reason == "the user's script"


def test_what_is_no_file_is_refused(table: Path):
    with pytest.raises(TunedTableError, match=r"did you mean 'tuned\.json'"):
        wb.trace(program, *INPUTS, tuned=table.with_name("tunde.json"))
    table.write_text("{")
    with pytest.raises(TunedTableError, match="not JSON"):
        wb.trace(program, *INPUTS, tuned=table)
    with pytest.raises(wb.WorkbenchError, match="tuned"):
        wb.trace(program, *INPUTS, tuned=3)  # type: ignore[arg-type]


def test_a_file_of_the_other_kind_is_told(table: Path, tmp_path: Path):
    x = torch.randn(8, 8)
    with pytest.raises(MappingFileError, match="a table of tuned mappings, and no mapping file: give it as tuned="):
        wb.trace(torch.relu, x, mapping=table)
    for name, text in ("by_hand.toml", "version = 1\n"), ("by_hand.json", '{"version": 1, "mapping": []}'):
        (tmp_path / name).write_text(text)
        with pytest.raises(TunedTableError, match="a file of mappings by hand is given as mapping="):
            wb.trace(torch.relu, x, tuned=tmp_path / name)
