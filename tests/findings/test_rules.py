"""Each rule has a program on which it must fire and one on which it must not; predictions are held to measurements."""

from __future__ import annotations

import json
import random
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import workbench as wb
from benchmarks.monotonic import journey
from simulator.machine.machine_file import machine_names
from tests.programs import PROGRAMS
from tests.rewriting import own_ops
from workbench.explaining.findings.rule_search import rules
from workbench.scheduling.kernels.template import Template

Program = Callable[[], wb.Journey]


def _traced(
    function: Callable[..., object], *shapes: tuple[int, ...], machine: str | wb.Machine = "tpu-v3"
) -> wb.Journey:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps on the host
        return wb.trace(function, *map(torch.randn, shapes), machine=machine)


def _many(x: torch.Tensor) -> torch.Tensor:
    for _ in range(4):
        x = torch.softmax(x, 1) @ x
    return x


def _on_the_host(x: torch.Tensor) -> torch.Tensor:
    return torch.special.i0(x) + 1


class _ElementByElement(Template):
    source = """
func.func @{{ kernel }}({{ signature }}) {
  affine.for %i = 0 to {{ X.shape[0] }} {
    affine.for %j = 0 to {{ X.shape[1] }} {
      %x = memref.load %X[%i, %j] : {{ X.memref }}
      memref.store %x, %Y[%i, %j] : {{ Y.memref }}
    }
  }
  return
}
"""


def _one_by_one() -> wb.Journey:
    with wb.ops.scope():
        wb.ops.template("aten.tanh")(_ElementByElement)
        made = _traced(torch.tanh, (20, 30), machine="edge-8x8")
        _ = made.simulated
        return made


def _with_pattern(function: Callable[..., object]) -> wb.Journey:
    with wb.ops.scope():
        pattern, example = own_ops.EXAMPLES[own_ops.both_op]
        wb.pattern("both", op=own_ops.both_op, example=example)(pattern)
        return _traced(function, (20, 30), (20, 30))


def _twice(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x, 1) @ x + torch.tanh(torch.cumsum(x, 1))


def _once(x: torch.Tensor) -> torch.Tensor:
    y = torch.cumsum(x, 1)
    return y @ x + torch.tanh(y)


def _on_cores(function: Callable[..., object], *shapes: tuple[int, ...]) -> wb.Journey:
    return _traced(function, *shapes, machine=wb.machine("edge-8x8", cores=4))


ROW_AFTER_ROW = wb.machine("tpu-v3", dram_tile="")
"""Whose tensors do not lie in blocks."""
SLOW = wb.machine("tpu-v3", dram_bytes_per_second=5_000_000_000)


def _banked(function: Callable[..., object], *shapes: tuple[int, ...], tile: str = "") -> wb.Journey:
    return _traced(function, *shapes, machine=wb.machine("tpu-v3", memory="banked", dram_tile=tile))


def _mlp() -> wb.Journey:
    return _traced(nn.Sequential(nn.Linear(64, 160), nn.ReLU(), nn.Linear(160, 10)), (32, 64), machine="tpu-v4")


def _narrow() -> wb.Journey:
    """In two slots: with three, the next weights are there in time."""
    mapping = {"*": {"tile": {"k": 256}, "buffers": 2}}
    return wb.trace(nn.Linear(400, 60), torch.randn(37, 400), machine="tpu-v3", mapping=mapping)


def _across_lanes() -> wb.Journey:
    """On lanes that take four cycles for a step of a tree: with one the memory is what is waited for."""
    return _traced(lambda x: torch.softmax(x, 1), (512, 512), machine=wb.machine("tpu-v3", cross_lane_step_cycles=4))


def _half_columns() -> wb.Journey:
    """Rows of 24 numbers, which are one and a half requests of 64 bytes."""
    given, tile = (torch.randn(40, 48), torch.randn(48, 48)), {"m": 40, "n": 24, "k": 16}
    return wb.trace(torch.matmul, *given, machine="edge-8x8", mapping={"*": {"tile": tile}})


def _means() -> wb.Journey:
    """In tiles so small that the next load waits for a slot."""
    mapping = {"*": {"tile": {"d0": 8}}}
    return wb.trace(lambda x: x.mean(-1, keepdim=True), torch.randn(240, 77), machine="edge-8x8", mapping=mapping)


def _small_images() -> wb.Journey:
    return _traced(nn.Conv2d(128, 128, 3, padding=1, bias=False), (1, 128, 7, 7), machine=ROW_AFTER_ROW)


def _short_rows() -> wb.Journey:
    return _traced(nn.Conv2d(64, 64, 3, padding=1), (1, 64, 20, 20), machine=ROW_AFTER_ROW)


def _batch_norm(*, training: bool = False) -> wb.Journey:
    model = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU()).train(training)
    return _traced(model, (1, 32, 14, 14))


def _tiled(tile: dict[str, int]) -> wb.Journey:
    given = torch.randn(128, 256), torch.randn(256, 512)
    return wb.trace(torch.matmul, *given, machine="tpu-v3", mapping={"k0": {"tile": tile}})


def _in_blocks(function: Callable[..., object], *shapes: tuple[int, ...], layout: str | None = "given") -> wb.Journey:
    return wb.trace(function, *map(torch.randn, shapes), machine="tpu-v3", layout=layout)


def _dropping() -> wb.Journey:
    return _traced(nn.Sequential(nn.Linear(64, 64), nn.Dropout(), nn.Linear(64, 64)), (64, 64))


def _by_file(op: str) -> wb.Journey:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mine.json")
        path.write_text(json.dumps({"version": 1, "mapping": [{"ops": [op], "buffers": 1}]}), "utf-8")
        return wb.trace(torch.matmul, torch.randn(20, 30), torch.randn(30, 20), machine="edge-8x8", mapping=path)


RULES: dict[str, tuple[Program, Program]] = {
    "launches": (lambda: _traced(_many, (32, 32)), lambda: _traced(torch.matmul, (2048, 2048), (2048, 2048))),
    "memory at its peak": (
        lambda: _traced(nn.Linear(2048, 2048), (1, 2048)),
        lambda: _traced(torch.matmul, (512, 512), (512, 512)),
    ),
    "wide numbers": (
        lambda: _traced(nn.Linear(2048, 2048), (1, 2048)),
        lambda: wb.trace(nn.Linear(2048, 2048).bfloat16(), torch.randn(1, 2048).bfloat16(), machine="tpu-v3"),
    ),
    "bound by issue": (
        lambda: _traced(torch.relu, (64, 64), machine=wb.machine("edge-8x8", issue_interval_cycles=100)),
        lambda: _traced(torch.relu, (64, 64), machine="edge-8x8"),
    ),
    "stored and never read": (
        lambda: _traced(lambda x: x.sort()[0], (64, 256), machine="edge-8x8"),
        lambda: _traced(torch.sort, (64, 256), machine="edge-8x8"),
    ),
    "bound by memory": (
        lambda: _traced(torch.matmul, (256, 256), (256, 256)),
        lambda: _traced(nn.Linear(2048, 2048), (1, 2048)),
    ),
    "arrays at their peak": (
        lambda: _traced(torch.matmul, (2048, 2048), (2048, 2048)),
        lambda: _traced(torch.matmul, (64, 64), (64, 64)),
    ),
    "array filled in part": (
        lambda: _traced(nn.Conv2d(64, 64, 3, padding=1, groups=8), (1, 64, 28, 28)),
        lambda: _traced(torch.matmul, (1024, 1024), (1024, 1024)),
    ),
    "vector bound": (
        _across_lanes,
        lambda: _traced(torch.matmul, (512, 512), (512, 512)),
    ),
    "short transfers": (_short_rows, lambda: _traced(torch.matmul, (512, 512), (512, 512), machine=ROW_AFTER_ROW)),
    "channels outermost": (_short_rows, lambda: _traced(torch.matmul, (512, 512), (512, 512), machine=ROW_AFTER_ROW)),
    "latency in the open": (
        lambda: _traced(lambda x, y: x + y, (40, 48), (40, 48), machine="edge-8x8"),
        lambda: _traced(torch.matmul, (2048, 2048), (2048, 2048)),
    ),
    "waits for slots": (_means, lambda: _traced(torch.relu, (64, 64))),
    "weights in the open": (_narrow, lambda: _traced(torch.matmul, (1024, 1024), (1024, 1024))),
    "arrays wait for one": (_narrow, lambda: _traced(torch.matmul, (1024, 1024), (1024, 1024))),
    "computed twice": (lambda: _traced(_twice, (128, 128)), lambda: _traced(_once, (128, 128))),
    "moved again": (
        lambda: _traced(torch.matmul, (512, 512), (512, 512), machine="tpu-v2"),
        lambda: _traced(torch.matmul, (128, 128), (128, 128)),
    ),
    "cores wait for one": (
        lambda: _on_cores(torch.sum, (60, 77)),
        lambda: _on_cores(torch.relu, (256, 256)),
    ),
    "barrier waits": (
        lambda: _on_cores(lambda x: torch.softmax(x, 0), (64, 48)),
        lambda: _on_cores(torch.relu, (256, 256)),
    ),
    "common memory unused": (_mlp, lambda: _mlp().with_(resident="auto")),
    "rows opened for short runs": (
        lambda: _banked(lambda x: x[:, :2] * 2.0, (4096, 2048)),
        lambda: _banked(torch.relu, (512, 512)),
    ),
    "padding": (
        _small_images,
        lambda: _traced(nn.Conv2d(128, 128, 3, padding=1, bias=False), (1, 128, 56, 56), machine=ROW_AFTER_ROW),
    ),
    "padded tensors": (
        lambda: _in_blocks(torch.add, (400, 80, 24), (400, 80, 24)),
        lambda: _in_blocks(torch.add, (400, 80, 24), (400, 80, 24), layout=None),
    ),
    "batch norms to fold": (_batch_norm, lambda: _batch_norm(training=True)),
    "training mode": (lambda: _batch_norm(training=True), _batch_norm),
    "mapping of one's own": (
        lambda: _tiled({"m": 8, "n": 32, "k": 256}),
        lambda: _tiled({"m": 128, "n": 256, "k": 256}),
    ),
    "mapping file unused": (lambda: _by_file("relu"), lambda: _by_file("matmul")),
    "host trips": (lambda: _traced(_on_the_host, (64, 64)), lambda: _traced(torch.relu, (64, 64))),
    "scalar accesses": (
        _one_by_one,
        lambda: _traced(torch.relu, (64, 64)),
    ),
    "pattern without a match": (
        lambda: _with_pattern(lambda x, y: torch.sin((x + y) * x)),
        lambda: _with_pattern(lambda x, y: torch.tanh((x + y) * x)),
    ),
    "missed fusions": (lambda: _traced(_many, (32, 32)), lambda: _traced(torch.relu, (64, 64))),
}


def _rules(journey: wb.Journey) -> set[str]:
    found = journey.findings
    failed = [reason for reason in found.reason if "failed" in reason]
    assert not failed, failed
    return set(found.rule)


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_fires_where_it_must_and_nowhere_else(rule: str):
    fires, does_not = RULES[rule]
    assert rule in _rules(fires())
    assert rule not in _rules(does_not())


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (_small_images, "18% of the products are with zeros around the images"),
        (lambda: _traced(lambda x: torch.softmax(x, 1), (6, 40, 24), machine=ROW_AFTER_ROW), "19% of 128 lanes"),
        (_half_columns, "in requests of 64"),
        (
            lambda: _traced(torch.matmul, (64, 64), (64, 64)),
            "98,304 bytes for 49,152 needed ones, in whole blocks",
        ),
        (lambda: _traced(lambda x: x[::16] * 2, (65536,), machine=SLOW), "in requests of 32"),  # one dim: no blocks
    ],
)
def test_padding_is_zeros_lanes_or_parts_of_what_is_moved_whole(program: Program, reason: str):
    found = program().findings
    assert any(reason in each for each in found[found.rule == "padding"].reason)


@pytest.mark.parametrize(
    ("function", "inputs", "reason"),
    [
        (lambda x, i: x.gather(1, i), ((64, 64), (64, 64)), "single places, which take a request each"),
        (lambda x: torch.sort(x)[0], ((16, 256),), "the kernel's own steps work on parts of a row"),
        (lambda x: x.topk(20)[0], ((1, 8192),), "the kernel's own steps work on parts of a row"),
        (lambda x: torch.softmax(x, 1), ((64, 100),), "their extents are not multiples of this number"),
    ],
)
def test_padding_says_whose_extents_or_places_it_is(function, inputs, reason):
    x, *indices = (torch.randn(shape) for shape in inputs)
    places = [torch.randint(0, each.shape[-1], each.shape) for each in indices]
    found = wb.trace(function, x, *places, machine="tpu-v3").findings
    assert any(reason in each for each in found[found.rule == "padding"].reason)


def test_a_tensor_that_holds_half_of_the_bytes_is_not_all_of_them():
    """A gather reads its rows without a copy whose size is known beforehand."""
    j = wb.trace(lambda x, i: x[i], torch.randn(512, 512), torch.arange(512).flip(0), machine="edge-8x8")
    (reason,) = (each.reason for each in j.findings.records if each.rule == "memory at its peak")
    assert "50% of the bytes are those of the result of index; fewer bytes, or a faster memory," in reason


def test_a_remedy_that_failed_is_not_followed_again_on_the_same_journey():
    @torch.compiler.disable
    def halves(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() / 2)  # there is no bfloat16 in NumPy

    j = wb.trace(lambda x: (halves(x * 2) + 1).relu(), torch.randn(512, 512), machine="edge-8x8")
    steps = j.findings.followed(4, same_machine=True)
    calls = [each.partition(" = ")[2] for each in steps[steps.untried != ""].remedy]
    assert len(calls) == len(set(calls)) > 0


def test_narrower_numbers_are_a_change_of_the_whole_program_and_save_no_more_than_is_at_stake():
    """Half of the bytes of both layers are at stake, in one row, and no row of a kernel claims what both save."""
    model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024))
    tried = _traced(model, (4, 1024)).findings.tried()
    table = tried.table
    (row,) = table[table.remedy.str.contains("bfloat16")].itertuples()
    assert (row.rule, row.kernel) == ("wide numbers", "")
    assert 0.8 * row.cycles < row.gain <= row.cycles
    of_kernels = table[table.rule == "memory at its peak"]
    assert len(of_kernels) == 2 and not of_kernels.remedy.any() and of_kernels.gain.isna().all()
    assert all(card.cycles >= (card.measured or 0) for card in tried.cards)


def test_bfloat16_is_no_remedy_where_converting_it_takes_longer_than_moving_f32():
    """A depthwise convolution has two operations a point, and two conversions more in bfloat16."""
    j = _traced(lambda x, w: F.conv2d(x, w, padding=1, groups=32), (1, 32, 28, 28), (32, 1, 3, 3), machine="edge-8x8")
    assert j.changed("bfloat16").simulated.cycles > 1.2 * j.simulated.cycles
    assert "wide numbers" not in set(j.findings.rule)


@pytest.mark.parametrize("hidden", [True, False], ids=["between graphs", "in a graph"])
def test_bfloat16_is_not_promised_where_code_uses_numpy(hidden: bool):
    def halved(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(x.numpy() / 2)

    halves = torch.compiler.disable(halved) if hidden else halved
    j = _traced(lambda x: halves(x * 2) + 1, (512, 512), machine="edge-8x8")
    (row,) = j.findings.tried().table.query("rule == 'wide numbers'").itertuples()
    assert "halved uses NumPy, which has no bfloat16" in row.reason and "BFloat16" in row.untried


def test_numpy_in_a_method_that_no_code_names_is_not_told():
    class Shown(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input)

        def shown(self) -> str:
            return str(self.weight.numpy())

    (reason,) = _traced(Shown(2048, 2048), (1, 2048)).findings.query("rule == 'wide numbers'").reason
    assert "NumPy" not in reason


def _first_convolution(layout: torch.memory_format) -> wb.Journey:
    model = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU()).to(memory_format=layout)  # type: ignore[call-overload]
    return wb.trace(model, torch.randn(1, 3, 112, 112).contiguous(memory_format=layout))


REMEDIES: list[tuple[str, Program]] = [
    ("launches", RULES["launches"][0]),
    ("bound by memory", RULES["bound by memory"][0]),
    ("wide numbers", RULES["wide numbers"][0]),
    ("vector bound", RULES["vector bound"][0]),
    ("channels outermost", RULES["channels outermost"][0]),
    ("latency in the open", lambda: _traced(lambda x: torch.softmax(x, 0), (100, 77), machine="edge-8x8")),
    ("array filled in part", lambda: _first_convolution(torch.contiguous_format)),
    ("array filled in part", lambda: _first_convolution(torch.channels_last)),
    ("waits for slots", _means),
    ("waits for slots", lambda: _traced(torch.matmul, (768, 768), (768, 768), machine="tpu-v4")),
    ("common memory unused", _mlp),
    ("padded tensors", RULES["padded tensors"][0]),
    ("padded tensors", lambda: _in_blocks(nn.Conv2d(64, 64, 3, padding=1), (1, 64, 28, 28))),
    ("padded tensors", lambda: _in_blocks(lambda x: x.sum(-1), (512, 64, 16))),
    ("batch norms to fold", _batch_norm),
    ("training mode", lambda: _batch_norm(training=True)),
    ("training mode", _dropping),
    ("mapping of one's own", RULES["mapping of one's own"][0]),
    (
        "weights in the open",
        lambda: _traced(nn.Linear(1024, 512), (64, 1024), machine=wb.machine("tpu-v3", systolic_preload_depth=1)),
    ),
]


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(("rule", "program"), REMEDIES)
def test_a_remedy_saves_what_it_is_said_to(rule: str, program: Program):
    made = program()
    tried = made.findings.tried()
    row = tried[tried.rule == rule].iloc[0]
    assert row.remedy and not row.untried
    assert 0.02 * made.simulated.cycles < row.gain <= row.cycles, "at stake is no less than what is saved"
    changes = made.findings.records[row.name].remedy
    if changes.change or "layout" in changes.options:
        assert pd.isna(row.predicted), "it has a schedule of its own, which nobody has made yet"
    else:
        assert 0.5 <= row.predicted / row.gain <= 2


@pytest.mark.test_all
def test_what_a_rule_says_can_be_written_down_and_run():
    """The calls are text that a person copies."""
    for program in (_means, _mlp):
        journey = program()
        tried = journey.findings.tried()
        for row in tried[tried.remedy.str.startswith("j.with_")].itertuples():
            again = eval(row.remedy, {"j": journey}).simulated.cycles
            assert journey.simulated.cycles - again == row.gain


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.reshape(-1) * 2, (400, 24)),  # the order of x cannot change
        (torch.relu, (64, 256)),  # no order has less padding
        (torch.relu, (4, 24)),  # each order has as much
    ],
)
def test_padding_that_no_order_saves_is_no_finding(function: Callable[..., object], shape: tuple[int, ...]):
    assert "padded tensors" not in _rules(_in_blocks(function, shape))
    padded = _in_blocks(torch.add, (400, 80, 24), (400, 80, 24))
    assert "padded tensors" not in _rules(padded.with_(machine=ROW_AFTER_ROW))


@pytest.mark.test_all
def test_halos_and_tiles_that_come_again_are_told_apart():
    images = _traced(nn.MaxPool2d(7, 1, 3), (1, 64, 56, 56))
    rows = images.with_(mapping={"*": {"tile": {"oh": 2}}}).findings.query("rule == 'moved again'")
    assert len(rows) == 1 and "windows with their halos" in rows.reason.iloc[0]
    product = RULES["moved again"][0]().findings.query("rule == 'moved again'")
    assert "is loaded 2.0 times over" in product.reason.iloc[0] and "the same tiles again" in product.reason.iloc[0]


def test_groups_are_not_folded_and_their_channels_stay_outermost():
    made = _traced(nn.Conv2d(64, 64, 3, padding=1, groups=8), (1, 64, 28, 28))
    first = made.findings.iloc[0]
    assert first.rule == "array filled in part" and "depth 8 of 128 rows" in first.reason and not first.remedy
    assert "channels outermost" not in set(made.findings.rule)


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    "machine", ["edge-8x8", "tpu-v3", "tpu-v4", ROW_AFTER_ROW, wb.machine("tpu-v4", dram_tile="")], ids=str
)
@pytest.mark.parametrize("groups", [1, 16])
def test_channels_innermost_are_advised_only_where_they_save(machine: str | wb.Machine, groups: int):
    """Windows over each channel by itself read rows again, and a mean of few channels has short rows."""

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(nn.functional.conv2d(x, w, groups=groups, padding=1)).mean((2, 3))

    made = _traced(function, (1, 16, 20, 20), (16, 16 // groups, 3, 3), machine=machine)
    saves = made.simulated.cycles - made.changed("channels last").simulated.cycles
    assert saves > 0 or "channels outermost" not in set(made.findings.rule)


SMALL = [name for name in PROGRAMS if name not in ("ffn_residual", "softmax_long_row", "matmul_512")]
SAMPLE = random.Random(1).sample([(program, machine) for program in SMALL for machine in machine_names()], 6)


@pytest.mark.test_all(but=3)
@pytest.mark.parametrize(("program", "machine"), SAMPLE)
def test_what_is_predicted_is_what_is_measured(program: str, machine: str):
    made = journey(PROGRAMS[program], wb.machine(machine))
    tried = made.findings.tried()
    for row in tried[tried.predicted.notna()].itertuples():
        predicted, gain = int(row.predicted), int(row.gain)
        if max(predicted, gain) > 0.02 * made.simulated.cycles:
            assert gain > 0 and 0.5 <= predicted / gain <= 2, (row.rule, predicted, gain)


def test_every_span_of_a_finding_is_one_of_its_kernel():
    made = _traced(_many, (64, 64))
    events = made.simulated.events
    for row in made.findings.itertuples():
        kernels = set(events.kernel.iloc[list(row.spans)])
        assert not row.kernel or kernels <= {row.kernel}
    assert isinstance(made.findings, pd.DataFrame)


def test_every_rule_is_explained_to_who_is_new_to_it():
    page = (Path(__file__).parents[2] / "docs" / "why-slow.md").read_text()
    assert [rule for rule in rules() if f"**{rule}**" not in page] == []
