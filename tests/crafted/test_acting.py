"""Files that ask for more than they may: nothing that a file says runs, writes or opens anything of its choice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench as wb
from simulator.errors import MachineError
from simulator.machine.machine import machine_from
from simulator.machine.toml_text import toml_of
from tests.crafted.craft import CANARY, crafted_texts
from tests.crafted.judge import BAD, Opener, originals, verdicts
from tests.crafted.test_crafted import changed, text_with
from workbench.ground import errors
from workbench.ground.errors import WorkbenchError
from workbench.ir import graph_checks
from workbench.scheduling import foreign_code

SAMPLE = 8
Change = Callable[[dict[str, bytes]], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole")
    programs: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
        "plain": (lambda x: torch.relu(x) + 1, (4, 4)),
        "host": (lambda x: torch.linalg.det(x) + 1, (4, 4)),
    }
    found = dict[str, bytes]()
    for name, (function, shape) in programs.items():
        with warnings.catch_warnings(action="ignore"):
            wb.trace(function, torch.randn(shape), machine="edge-8x8").save(folder / name)
        found[name] = (folder / name).read_bytes()
    return found


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Path]:
    """A path that crafted files name; nothing may make it."""
    yield tmp_path / CANARY
    assert not (tmp_path / CANARY).exists()


def edited(name: str, edit: Callable[[Any], object]) -> Change:
    """A change of the JSON in a part of the file."""

    def change(members: dict[str, bytes]) -> None:
        data = json.loads(members[name])
        edit(data)
        members[name] = json.dumps(data).encode()

    return change


def nodes_edited(edit: Callable[[dict[str, Any]], object]) -> Change:
    """A change of every node, as it was captured and as it was lowered."""

    def each(data: dict[str, Any]) -> None:
        for node in [*data["captured"]["nodes"], *(item["node"] for item in data["nodes"])]:
            edit(node)

    return edited("lowered.json", each)


def asked(**options: object) -> Change:
    """A change of the journey's options."""
    return edited("journey.json", lambda manifest: manifest["options"].update(options))


def loaded(data: bytes, folder: Path, change: Change, *, trust: bool = False) -> wb.Journey:
    path = folder / "crafted.journey"
    path.write_bytes(changed(data, change))
    return wb.load(path, trust=trust)


def script(body: str) -> str:
    return (
        "transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {\n"
        f"  {body}\n  transform.yield\n}}"
    )


_MATCHED = 'transform.structured.match ops{["func.func"]} in %root : (!transform.any_op) -> !transform.any_op'
ACTING: dict[str, tuple[Callable[[Path], Change], str]] = {
    "a pass that writes a file": (
        lambda path: asked(passes={"tile and fuse": f"snapshot-op-locations{{filename={path}}}"}),
        "the pass 'snapshot-op-locations' after the step 'tile and fuse'",
    ),
    "the same in a nested pipeline": (
        lambda path: asked(passes={"clean up": ["cse", f"func.func(cse,snapshot-op-locations{{filename={path}}})"]}),
        "the pass 'snapshot-op-locations' after the step 'clean up'",
    ),
    "a pass of the workbench that takes any script": (
        lambda path: asked(passes={"name the ops": f"npu-attach-script{{{script('transform.print')}}}"}),
        "which is no plain list of passes",
    ),
    "a script that runs a pass": (
        lambda path: asked(
            schedule={
                "k0_relu_add": script(
                    f'%f = {_MATCHED}\n  %g = transform.apply_registered_pass "snapshot-op-locations" with options = '
                    f'{{"filename" = "{path}"}} to %f : (!transform.any_op) -> !transform.any_op'
                )
            }
        ),
        "the op 'transform.apply_registered_pass' in the script of 'k0_relu_add'",
    ),
    "a script that prints": (
        lambda path: asked(schedule={"k0_relu_add": script("transform.print %root : !transform.any_op")}),
        "the op 'transform.print' in the script of 'k0_relu_add'",
    ),
    "a kernel's text with a script beside it": (
        lambda path: beside_kernels(
            script("transform.print %root : !transform.any_op"), 'module attributes {transform.with_named_sequence} {'
        ),
        "the op 'transform.named_sequence' in the text of",
    ),
    "a kernel's text that calls a function": (
        lambda path: beside_kernels("func.func private @system(i64) -> i32\nfunc.func @f(%a: i64) -> i32 "
                                    "{ %r = call @system(%a) : (i64) -> i32\n return %r : i32 }"),
        "the op 'func.call' in the text of",
    ),
    "a script that is nested too deeply to look through": (
        lambda path: asked(schedule={"k0_relu_add": script(f"%f = \"a\"() {{x = {'[' * 300}{']' * 300}}} : () -> ()")}),
        "what cannot be read (more than 200 brackets are open here",
    ),
    "a kernel's text that is nested too deeply": (
        lambda path: beside_kernels(f"func.func private @f() attributes {{x = {'[' * 300}{']' * 300}}}"),
        "in the text of",
    ),
    "a kernel's text in LLVM": (
        lambda path: beside_kernels("llvm.func @system(!llvm.ptr) -> i32"),
        "the op 'llvm.func' in the text of",
    ),
}  # fmt: skip


def beside_kernels(text: str, module: str = "module {") -> Change:
    """Puts something beside the function of each kernel's text."""

    def edit(kernels: list[dict[str, str]]) -> None:
        for kernel in kernels:
            for name in ("mlir", "located"):
                kernel[name] = kernel[name].replace("module {", f"{module}\n{text}\n", 1)

    return edited("rendered.json", edit)


REPEATED: dict[str, Callable[[wb.Journey], object]] = {
    "with_": lambda journey: journey.with_(mapping={"*": {"buffers": 1}}).scheduled,
    "a machine": lambda journey: journey.with_(machine="tpu-v3").with_(simulate_seconds=60).simulated,
    "tuned": lambda journey: journey.tuned(budget=1),
    "mapspace": lambda journey: journey.scheduled.mapspace("k0", simulate=1),
    "the stage alone": lambda journey: wb.schedule(journey.lowered, journey.rendered, machine="edge-8x8"),
}


@pytest.mark.parametrize("what", ACTING)
def test_a_file_that_asks_for_more_opens_and_shows_and_repeats_nothing(
    whole: dict[str, bytes], tmp_path: Path, canary: Path, what: str
):
    craft, told = ACTING[what]
    journey = loaded(whole["plain"], tmp_path, craft(canary))
    journey.to_html(tmp_path / "page.html")
    assert journey.findings.table is not None and journey.knobs("k0").table is not None
    of_text = "in the text of" in told
    for way, repeat in REPEATED.items():
        if way == "the stage alone" and not of_text:
            continue  # it takes neither scripts nor passes of the journey
        with pytest.raises(errors.NotTrusted, match=re.escape(told)) as raised:
            repeat(journey)
        assert "trust=True" in str(raised.value) and raised.value.path.endswith("crafted.journey"), way
    if not of_text:
        assert journey.with_(passes=None, schedule=None, machine="tpu-v3").scheduled.record.kernels
    assert not canary.exists()


def test_what_it_asks_for_is_held_against_the_lists_again_when_it_was_saved_again(
    whole: dict[str, bytes], tmp_path: Path, canary: Path
):
    journey = loaded(whole["plain"], tmp_path, ACTING["a pass that writes a file"][0](canary))
    journey.save(tmp_path / "again.journey")
    with pytest.raises(errors.NotTrusted):
        _ = wb.load(tmp_path / "again.journey").with_(mapping={"*": {"buffers": 1}}).scheduled


def test_somebody_may_vouch_for_a_file(whole: dict[str, bytes], tmp_path: Path):
    made = tmp_path / "made"
    craft = ACTING["a pass that writes a file"][0](made)
    journey = loaded(whole["plain"], tmp_path, craft, trust=True).with_(mapping={"*": {"buffers": 1}})
    assert journey.scheduled.record.kernels and made.exists()
    with pytest.raises(errors.BadArgument, match="expected True or False"):
        wb.load(tmp_path / "crafted.journey", trust="yes")  # pyright: ignore[reportArgumentType]


def test_a_live_journey_is_not_held(tmp_path: Path):
    made = tmp_path / "made"
    live = wb.trace(torch.relu, torch.randn(4, 4), machine="edge-8x8")
    again = live.with_(passes={"tile and fuse": f"snapshot-op-locations{{filename={made}}}"})
    assert again.scheduled.record.kernels and made.exists()


def test_a_file_may_ask_for_what_only_transforms(whole: dict[str, bytes], tmp_path: Path):
    tiled = wb.trace(lambda x: torch.relu(x @ x) + 1, torch.randn(64, 64), machine="edge-8x8")
    kernel = tiled.scheduled.kernels[0]
    passes = {"bufferize": ["canonicalize", "func.func(loop-invariant-code-motion)"]}
    scripted = tiled.with_(schedule={kernel.name: kernel.schedule}, passes=passes)
    scripted.save(tmp_path / "scripted.journey")
    again = wb.load(tmp_path / "scripted.journey")
    assert again.with_(machine="tpu-v3").simulated.cycles == scripted.with_(machine="tpu-v3").simulated.cycles


def test_a_file_may_name_a_pass_of_this_session_but_give_it_no_text(whole: dict[str, bytes], tmp_path: Path):
    given = list[dict[str, str]]()
    with wb.ops.scope():

        @wb.mlir_pass("noting-its-options")
        def note(module: object, options: dict[str, str]) -> None:
            given.append(options)

        plain = loaded(whole["plain"], tmp_path, asked(passes={"clean up": "noting-its-options{count=3}"}))
        assert plain.with_(machine="tpu-v3").scheduled.record.kernels and given[0] == {"count": "3"}
        path = loaded(whole["plain"], tmp_path, asked(passes={"clean up": "noting-its-options{path=x}"}))
        with pytest.raises(errors.NotTrusted, match="the options 'path=x' of the pass 'noting-its-options'"):
            _ = path.with_(machine="tpu-v3").scheduled
    plain = loaded(whole["plain"], tmp_path, asked(passes={"clean up": "noting-its-options"}))
    with pytest.raises(errors.NotTrusted, match="the pass 'noting-its-options'"):
        _ = plain.with_(machine="tpu-v3").scheduled


PIPELINES = {
    "canonicalize,cse": [],
    " func.func( loop-invariant-code-motion , cse ) , canonicalize": [],
    "one-shot-bufferize{bufferize-function-boundaries=true function-boundary-type-conversion=identity-layout-map}": [],
    "npu-promote{buffers=2}": [],
    "npu-attach-schedule{order=m,n tile=m:32}": [],
    "npu-attach-script": ["the pass 'npu-attach-script'"],
    "transform-interpreter": ["the pass 'transform-interpreter'"],
    "func.func(print-ir{label=x})": ["the pass 'print-ir'"],
    "canonicalize{a=/etc/passwd}": ["the options 'a=/etc/passwd' of the pass 'canonicalize'"],
    "llvm.func(cse)": ["the pass 'llvm.func'"],
}


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_pipelines_are_held_against_the_list(pipeline: str):
    assert foreign_code.refused_in_pipeline(pipeline) == PIPELINES[pipeline]


@pytest.mark.parametrize("pipeline", ["cse)", "(cse)", "cse{", "cse,,cse", "cse{a={b=c}}", "cse\ncse", "cse;cse", "é"])
def test_a_pipeline_that_is_no_plain_list_is_refused(pipeline: str):
    assert "which is no plain list of passes" in foreign_code.refused_in_pipeline(pipeline)[-1]


CODE = "x=1)\nopen('crafted-canary', 'w')\ndef f(in0=0, in1=0):\n    dict(y"


def named(key: str, op: str = "aten.relu.default") -> Change:
    """One more argument of a call, by a name that the op does not have."""

    def edit(node: dict[str, Any]) -> None:
        if node["op"] == op:
            node["kwargs"] = {key: {"is": "Literal", "kind": "int", "value": 1}}

    return nodes_edited(edit)


NAMES: dict[str, tuple[Change, str]] = {
    "Python in the name of an argument": (named(CODE), "no name of an argument"),
    "a keyword of Python as such a name": (named("import"), "no name of an argument"),
    "a name of an argument with a space": (named("a b"), "no name of an argument"),
    "an element type that PyTorch calls something else": (text_with("lowered.json", '"f32"', '"load"'), "no tensor is"),
    "a kernel's name with a brace": (
        lambda members: members.update(
            {name: members[name].replace(b"k0_relu_add", b"k0(){") for name in members if name.endswith(".json")}
        ),
        "cannot call it",
    ),
}


@pytest.mark.parametrize("what", NAMES)
def test_names_that_code_is_made_of_are_names(
    whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
):
    monkeypatch.chdir(tmp_path)
    change, told = NAMES[what]
    with pytest.raises(errors.JourneyFileEdited, match=told):
        loaded(whole["plain"], tmp_path, change)
    assert not (tmp_path / CANARY).exists()


def calling(op: str, *args: object) -> Change:
    """Another call in the place of the one that runs on the host."""
    kinds = {str: "str", bool: "bool", int: "int"}

    def edit(node: dict[str, Any]) -> None:
        if "det" in node["op"]:
            node["op"], node["kwargs"] = op, {}
            node["args"] = [{"is": "Literal", "kind": kinds[type(each)], "value": each} for each in args]

    return nodes_edited(edit)


@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
@pytest.mark.parametrize("op", ["aten.from_file.default", "load_library.__call__.__call__", "aten.no_such_op.default"])
def test_a_call_that_opens_a_file_is_not_made(whole: dict[str, bytes], tmp_path: Path, canary: Path, op: str):
    journey = loaded(whole["host"], tmp_path, calling(op, str(canary), True, 16))
    try:
        assert journey.with_(fusion="none").simulated.cycles
    except WorkbenchError as error:
        assert op.partition(".")[0] in str(error) or "crafted.journey" in str(error)
    assert not canary.exists()


@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
def test_records_that_no_op_takes_are_told_when_a_stage_is_repeated(whole: dict[str, bytes], tmp_path: Path):
    journey = loaded(whole["host"], tmp_path, named("other", "aten.linalg_det.default"))
    with pytest.raises(errors.JourneyFileUnfit, match="a stage cannot be repeated from its records"):
        _ = journey.with_(fusion="none").scheduled


MAPPED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a tile of no dim": lambda mapping: mapping["tile"].update({"zz": 4}),
    "an order of no dim": lambda mapping: mapping.update(order=["zz"]),
    "an order with a dim twice": lambda mapping: mapping.update(order=[*mapping["order"], *mapping["order"]]),
    "cores along no dim": lambda mapping: mapping["cores"].update({"zz": 2}),
}


@pytest.mark.parametrize("what", MAPPED)
def test_a_mapping_of_other_dims_is_refused_when_the_file_is_opened(whole: dict[str, bytes], tmp_path: Path, what: str):
    change = edited("scheduled.json", lambda data: MAPPED[what](data["kernels"][0]["mapping"]))
    with pytest.raises(errors.JourneyFileEdited, match="and is mapped by"):
        loaded(whole["plain"], tmp_path, change)


def test_element_types_are_those_of_pytorch():
    ours = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "c64", "c128"}
    usual = {f"{kind}{bits}" for kind in ("float", "int") for bits in (8, 16, 32, 64)} | {"uint8", "bfloat16"}
    found = {str(each).removeprefix("torch.") for each in vars(torch).values() if isinstance(each, torch.dtype)}
    others = found - usual - {"complex64", "complex128"}
    assert others <= graph_checks.DTYPES and graph_checks.DTYPES - ours <= found


def test_a_machine_of_a_file_reads_no_file_of_its_choice(tmp_path: Path):
    """A machine without its memory names the memory's file alone, and nobody opens that file."""
    here = wb.machine("tpu-v3", memory="banked")
    named = machine_from(here.figures() | {"dram_timing": str(tmp_path / "secret.toml")}, here.provenance)
    assert named.own_memory is None
    for look in (lambda: named.named_memory, lambda: named.with_(vector_lanes=64), named.banked_memory):
        with pytest.raises(MachineError, match="is from a file that does not hold its memory"):
            look()
    assert replace(named, own_memory=here.named_memory).named_memory == here.named_memory


@pytest.fixture(scope="module")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    with Opener(originals(tmp_path_factory.mktemp("whole"), ["perceptron", "softmax"]), acts=True) as made:
        yield made


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore")
def test_a_sample_of_files_with_crafted_texts_is_changed_tried_and_tuned(acting: Opener, tmp_path: Path):
    """`python -m tests.crafted 200 --texts --acts` draws more."""
    seeds = range(30_000, 30_000 + SAMPLE)
    found = [verdict for _, verdict in verdicts(acting, seeds, tmp_path, seconds=600, craft=crafted_texts)]
    assert not [each for each in found if each.outcome in BAD]
    assert {each.outcome for each in found} == {"told", "shown"}


@pytest.mark.test_all
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace, which lists what a process opens, is not installed")
def test_no_other_path_is_opened_than_for_a_harmless_file(tmp_path: Path):
    """Every path that is opened lies among programs, in the caches, or in the folders that were given."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.crafted.traced_paths", str(tmp_path), "3"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr
    assert re.search(
        r"3 crafted files, [\d,]+ paths more than those of harmless ones: none of the file's choice", told.stdout
    )


def test_what_it_says_does_nothing_to_a_terminal(tmp_path: Path):
    def plain(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + 1

    plain.__name__ = plain.__qualname__ = "cleared\x1b[2J"
    wb.trace(plain, torch.randn(4, 4), machine="edge-8x8").save(tmp_path / "a.journey")
    journey = wb.load(tmp_path / "a.journey")
    told = [repr(journey), str(journey), journey.captured.text(), repr(journey.captured)]
    assert "cleared␛[2J" in "".join(told) and not any("\x1b" in each for each in told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (".".join("a" * 30_000) + " = 1", "a key of more than 100 parts"),
        (f"x = {{ {'.'.join(['b'] * 200)} = 1 }}", "a key of more than 100 parts"),
        ('["' + '"."'.join("c" * 200) + '"]', "a key of more than 100 parts"),
        (f"version = 0x{'f' * 5_000}", "a whole number of more than 64 bits"),
        (f"[[mapping]]\nops = ['relu']\nbuffers = -{2**63 + 1}", "a whole number of more than 64 bits"),
    ],
    ids=["a long key", "inside a table", "a title", "hexadecimal", "decimal"],
)
def test_toml_that_takes_hours_or_cannot_be_told_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "long.toml"
    path.write_text(text)
    with pytest.raises(MachineError, match=told):
        wb.machine(path)
    with pytest.raises(errors.MappingFileError, match=told):
        wb.trace(torch.relu, torch.ones(4, 4), machine="edge-8x8", mapping=path)


def test_keys_of_a_few_parts_are_read() -> None:
    assert toml_of("a.b.'c d'.\"e\" = 1.5\nz = 'x.y.z'") == {"a": {"b": {"c d": {"e": 1.5}}}, "z": "x.y.z"}


def test_modules_without_end_are_refused(whole: dict[str, bytes], tmp_path: Path) -> None:
    nested = {"module": ".".join("a" * 1000)}
    change = edited("lowered.json", lambda data: data["captured"]["nodes"][0]["origin"].update(nested))
    with pytest.raises(errors.JourneyFileEdited, match="is in more than 250 modules, one in the other"):
        loaded(whole["plain"], tmp_path, change)
