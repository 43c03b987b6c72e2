"""Mappings from a file: matched by ops and shapes, told in the schedule, each mistake with its line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench.ground.errors import MappingError, MappingFileError
from workbench.scheduling.mappings.key_lines import lines_of_json

INPUTS = torch.randn(64, 32), torch.randn(32, 48)


def traced(path: Path, machine: str = "edge-8x8") -> wb.Journey:
    return wb.trace(lambda a, b: torch.relu(a @ b), *INPUTS, machine=machine, mapping=str(path))


def written(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


GOOD = """version = 1

[[mapping]]
ops = ["matmul"]
buffers = 3

[[mapping]]
ops = ["matmul", "aten.relu.default"]
machine = "edge-8x8"
shapes = [[64, 32], ["*", 48]]
order = ["n", "m", "k"]
buffers = 1

[mapping.tile]
m = 16
n = 24
"""


def test_the_first_entry_that_matches_counts_and_is_told(tmp_path: Path):
    path = written(tmp_path, GOOD)
    j = traced(path)
    (made,) = j.scheduled.record.kernels
    assert made.mapping.reason == f"{path}, line 7" and j.scheduled.table.reason[0] == f"{path}, line 7"
    assert (made.mapping.tile["m"], made.mapping.tile["n"], made.mapping.buffers) == (16, 24, 1)
    assert made.mapping.order == ("n", "m", "k") and j.check().ok
    by_name = j.with_(mapping={"k0": {"tile": {"m": 16, "n": 24}, "order": ["n", "m", "k"], "buffers": 1}})
    assert by_name.simulated.cycles == j.simulated.cycles


def test_json_says_the_same(tmp_path: Path):
    text = '{"version": 1, "mapping": [\n{"ops": ["matmul", "relu"],\n "tile": {"m": 16}}]}'
    path = written(tmp_path, text, "mine.json")
    assert traced(path).scheduled.record.kernels[0].mapping.reason == f"{path}, line 2"


def test_a_kernel_that_no_entry_matches_says_what_it_is(tmp_path: Path):
    path = written(tmp_path, GOOD)
    reason = traced(path, "tpu-v3").scheduled.table.reason[0]
    told = f"no entry of {path} matches ops matmul, relu of shapes [64, 32], [32, 48] on tpu-v3"
    assert reason.endswith(f"{told}; the nearest, line 7, has machine edge-8x8")
    assert reason.startswith("best of the tilings")


@pytest.mark.parametrize(
    ("right", "wrong", "differs"),
    [
        ('"aten.relu.default"]', '"rely"]', "ops matmul, rely"),
        ('[[64, 32], ["*", 48]]', '[["*", 48]]', "shapes ['*', 48]"),
        ('"aten.relu.default"]', '"relu", "add"]', "ops matmul, relu, add"),
    ],
)
def test_the_nearest_entry_says_what_differs(right: str, wrong: str, differs: str, tmp_path: Path):
    j = traced(written(tmp_path, GOOD.replace(right, wrong)))
    assert j.scheduled.table.reason[0].endswith(f"; the nearest, line 7, has {differs}")
    (unused,) = j.findings.query("rule == 'mapping file unused'").itertuples()
    assert f"the nearest, line 7, has {differs}. Correct the entry" in unused.reason


def test_a_machine_that_nobody_knows_is_refused_and_one_of_ones_own_is_not(tmp_path: Path):
    wrong = GOOD.replace("edge-8x8", "edge-8x9")
    with pytest.raises(
        MappingFileError, match=r"line 9: machine = 'edge-8x9': .*did you mean 'edge-8x8'\?.* machines = "
    ):
        _ = traced(written(tmp_path, wrong)).scheduled
    listed = wrong.replace("version = 1", 'version = 1\nmachines = ["edge-8x9"]')
    assert "the nearest, line 8, has machine edge-8x9" in traced(written(tmp_path, listed)).scheduled.table.reason[0]
    own = tmp_path / "edge-8x9.toml"
    own.write_text('version = 1\nbase = "edge-8x8"\n')
    assert traced(written(tmp_path, wrong), str(own)).scheduled.table.reason[0].endswith("mine.toml, line 7")


def test_a_saved_journey_keeps_the_mappings_by_name(tmp_path: Path):
    path = written(tmp_path, GOOD)
    traced(path).save(tmp_path / "j.npu")
    path.unlink()
    loaded = wb.load(tmp_path / "j.npu")
    assert loaded.options["mapping"] == {
        "k0_matmul_relu": {"tile": {"m": 16, "n": 24}, "order": ["n", "m", "k"], "buffers": 1}
    }


def test_a_knob_keeps_what_the_file_says(tmp_path: Path):
    j = traced(written(tmp_path, GOOD))
    turned = j.knobs("k0").turned("buffers", 2)
    assert turned.scheduled.record.kernels[0].mapping.tile["m"] == 16


def test_the_changed_file_is_read_with_the_next_call(tmp_path: Path):
    path = written(tmp_path, GOOD)
    j = traced(path)
    written(tmp_path, GOOD.replace("m = 16", "m = 32"))
    assert j.scheduled.record.kernels[0].mapping.tile["m"] == 16
    assert j.with_(mapping=path).scheduled.record.kernels[0].mapping.tile["m"] == 32


BAD = {
    "version = 2": "version = 2; this version of the workbench reads 1",
    "[[mapping]]\nops = ['mm']\nbuffers = 1": "it says no version; write `version = 1` at the top",
    "": "it says no version; write `version = 1` at the top",
    "version = 1\nmappings = 3": "unknown key 'mappings'; did you mean 'mapping'",
    "version = 1\n[mapping]\nbuffers = 1": r"expected a list of them, in TOML \[\[mapping\]\]",
    "version = 1\nmapping = [3]": "3 is no entry",
    "version = 1\nmachines = 'mine'": r"machines = 'mine': expected a list of names, machines = \['mine'\]",
    "version = \n": "not TOML: .*line 1",
    "version = 1\n\n[[mapping]]\nops = ['mm']\ntyle = {}": "line 5: unknown key 'tyle'; did you mean 'tile'",
    "version = 1\n[[mapping]]\nbuffers = 1\n[[mapping]]\nbuffers = 2": "line 2: ops is missing",
    "version = 1\n[[mapping]]\nops = 'mm'\nbuffers = 1": "line 3: ops = 'mm': expected the ops",
    "version = 1\n[[mapping]]\nops = ['mm']\n": "line 2: the entry says nothing about the mapping",
    "version = 1\n[[mapping]]\nops = ['mm']\nbuffers = 0": "line 4: buffers = 0: expected a whole number",
    "version = 1\n[[mapping]]\nops = ['mm']\n[mapping.tile]\nm = -1": "line 4: tile of m = -1",
    "version = 1\n[[mapping]]\nops = ['mm']\nmachine = 3\nbuffers = 1": "line 4: machine = 3",
    "version = 1\n[[mapping]]\nops = ['mm']\nshapes = [3]\nbuffers = 1": "line 4: shapes = .*expected a shape",
    "version = 1\n[[mapping]]\nops = ['mm']\nshapes = [[-3]]\nbuffers = 1": "line 4: shapes = .*-3 is no extent",
    "version = 1\n# a\u2028b\n[[mapping]]\nops = ['mm']\nbuffers = 0": "line 5: buffers = 0",
    "version = 1\n[[mapping]]\nops = ['mm']\n[ mapping . tile ]\nm = -1": "line 4: tile of m = -1",
    "version = 1.0\n": "version = 1.0; this version",
    "version = 1\n\nmapping = [{ops = ['mm'], buffers = 1}, 3]": "line 3, entry 2: 3 is no entry",
    "version = 1\n[[mapping]]\nops = ['mm']\n\norder = ['m', 'm']": "line 5: order = .*each of them once",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_each_mistake_is_one_error_with_file_and_line(text: str, tmp_path: Path):
    path = written(tmp_path, text)
    with pytest.raises(MappingFileError, match=f"(?s)^{path}.*{BAD[text]}"):
        traced(path)


UNVERSIONED = r'b\.json: it says no version; write `"version": 1` at the top'
TWICE = "stands there again; leave one of them out"
BAD_JSON = {
    "": UNVERSIONED,
    "\n": UNVERSIONED,
    "{}": UNVERSIONED,
    '{"mapping": []}': UNVERSIONED,
    '{"version": 1,\n "mapping": [\n  {"ops": ["a:b"], "buffers": 1},\n  {"ops": ["mm"],\n   "bufers": 1}]}': (
        "line 5: unknown key 'bufers'; did you mean 'buffers'"
    ),
    '{"version": 1,\n': "not JSON: .*line 2",
    # keys that stand twice, as TOML refuses them
    '{"version": 1,\n"mapping": [\n{"ops": ["mm"], "buffers": 1,\n"buffers": 2}]}': (
        f"line 4: the key 'buffers' {TWICE}"
    ),
    '{"version": 1,\n"mapping": [{"ops": ["mm"], "buffers": 1}],\n"mapping": []}': f"line 3: the key 'mapping' {TWICE}",
    '{"version": 1, "mapping": [{"ops": ["mm"],\n"tile": {"m": 1, "\\u006d": 2}}]}': f"line 2: the key 'm' {TWICE}",
    # no journey could hold it
    '{"version": 1,\n"mapping": [{"ops": ["\\ud800", "relu"], "buffers": 2}]}': (
        "line 2: .* has half a character in it, which is no text"
    ),
}


@pytest.mark.parametrize("text", BAD_JSON, ids=range(len(BAD_JSON)))
def test_each_mistake_in_json_is_one_error_with_file_and_line(text: str, tmp_path: Path):
    with pytest.raises(MappingFileError, match=BAD_JSON[text]):
        traced(written(tmp_path, text, "b.json"))


@pytest.mark.test_all
def test_the_lines_of_a_long_file_take_as_long_as_the_file_is():
    entry = '{"ops": ["mm"],\n"tile": {"m": 4}}'
    text = f'{{"version": 1, "mapping": [{", ".join([entry] * 30_000)}]}}'
    began = time.process_time()
    assert lines_of_json(text, "mapping")[29_999, "tile"] == 30_001
    assert time.process_time() - began < 10, "a scan from the beginning for each token takes minutes"


def test_files_that_are_none_are_told(tmp_path: Path):
    with pytest.raises(MappingFileError, match=r"there is no file .*; did you mean 'mine.toml'"):
        written(tmp_path, GOOD)
        traced(tmp_path / "mime.toml")
    with pytest.raises(MappingFileError, match=r"ends in \.toml or \.json"):
        traced(tmp_path / "mine.yaml")


def test_a_mapping_that_does_not_fit_says_which_line_it_is_from(tmp_path: Path):
    path = written(tmp_path, "version = 1\n\n[[mapping]]\nops = ['matmul', 'relu']\ntile = {m = 999}")
    with pytest.raises(MappingError, match=f"(?s)tile of m = 999.*The mapping is from {path}, line 5\n"):
        _ = traced(path).scheduled
    path = written(tmp_path, "version = 1\n\n[[mapping]]\nops = ['matmul', 'relu']\ntile = {q = 9}")
    with pytest.raises(MappingError, match=f"(?s)names 'q'.*The mapping is from {path}, line 5\n"):
        _ = traced(path).scheduled


@pytest.mark.test_all
def test_a_kernel_of_attention_written_by_hand_has_all_its_ops(tmp_path: Path):
    text = 'version = 1\n[[mapping]]\nops = ["transpose", "matmul", "div", "softmax", "matmul"]\ntile = { queries = 8 }'
    path, (q, k, v) = written(tmp_path, text), torch.randn(3, 1, 2, 16, 8)
    j = wb.trace(
        lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) / 8, -1) @ v, q, k, v, machine="edge-8x8", mapping=path
    )
    assert j.simulated.by_op.node.tolist() == ["softmax"]
    assert j.scheduled.record.kernels[0].mapping.tile["queries"] == 8
