"""`j.findings`: what it says, what it tries, rules of one's own, and what becomes of mistakes."""

from __future__ import annotations

import copy
import html
import inspect
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import workbench as wb
from workbench.explaining.findings import findings_answer, rule_registry
from workbench.explaining.findings.folded_windows import folded_window, folds
from workbench.explaining.findings.source_changes import changed
from workbench.ground.basics.cards import Card, cards_html, cards_text
from workbench.ground.errors import BadOption

RELU = wb.trace(torch.relu, torch.randn(64, 64), machine="tpu-v3")
ROW_AFTER_ROW = wb.machine("tpu-v3", dram_tile="")
"""Whose tensors do not lie in blocks: an image with its channels outermost has short rows."""


def softmax() -> wb.Journey:
    """Bound by the vector unit: a step of a tree across its lanes takes four cycles."""
    machine = wb.machine("tpu-v3", cross_lane_step_cycles=4)
    return wb.trace(torch.softmax, torch.randn(512, 512), 1, machine=machine)


def test_one_row_a_finding_most_cycles_first_with_its_reason_place_and_spans():
    journey = softmax()
    found = journey.findings
    assert isinstance(found, pd.DataFrame) and found.cycles.is_monotonic_decreasing
    first = found.iloc[0]
    assert first.rule == "vector bound" and "moves across lanes" in first.reason
    assert first.nodes == ("softmax",) and "test_findings.py:" in first.place
    assert set(journey.simulated.events.kind[list(first.spans)]) == {"VECTOR"}
    assert first.cycles <= journey.simulated.cycles and first.share == first.cycles / journey.simulated.cycles


def test_printed_findings_have_reason_and_remedy_whole_at_the_width_of_pandas():
    found = softmax().findings
    with pd.option_context("display.width", 80):
        printed = str(found)
    assert max(map(len, printed.splitlines())) <= 80 and "..." not in printed
    in_one_line = " ".join(printed.split())
    for row in found.itertuples():
        assert row.reason in in_one_line and row.remedy in in_one_line
    with pd.option_context("display.width", None):
        assert str(found) == printed
    with pd.option_context("display.max_rows", 1):
        assert f"{len(found) - 1} more" in str(found)
    assert "..." in str(pd.DataFrame(found))  # the table itself is pandas'


def test_what_is_tried_is_done_anew_and_the_journey_stays_as_it_was():
    journey = softmax()
    before = journey.simulated.record.digest()
    tried = journey.findings.tried()
    launches = tried[tried.rule == "launches"].iloc[0]
    again = eval(launches.remedy, {"j": journey}).simulated.cycles  # the call as it is written
    assert launches.predicted == launches.gain == journey.simulated.cycles - again
    assert launches.gain == journey.machine.launch_overhead_cycles // 2 > 0
    assert list(journey.findings.columns) == list(tried.columns)[:-2]
    assert journey.simulated.record.digest() == before


def test_a_rule_of_ones_own_is_run_and_one_that_raises_is_named(own_rules: None):
    @wb.finding("long stores")
    def long_stores(facts: wb.Facts) -> Iterator[wb.Finding]:
        for kernel in facts.computed:
            yield wb.Finding(kernel.name, kernel.cycles, "stores are waited for")

    @wb.finding()
    def broken_rule(facts: wb.Facts) -> Iterator[wb.Finding]:
        raise ValueError("no such thing")

    found = softmax().findings
    assert "long stores" in set(found.rule) and "vector bound" in set(found.rule)
    (broken,) = found[found.rule == "broken rule"].reason
    assert broken == "the rule 'broken rule' failed: ValueError: no such thing"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"cycles": 10**9}, "cycles=1,000,000,000: expected 0 to "),
        ({"cycles": -50}, "cycles=-50: expected 0 to "),
        ({"cycles": 1.5}, "cycles=1.5, of type float; expected a whole number"),
        ({"predicted": 10**9}, "predicted=1,000,000,000: a remedy cannot save more than the "),
        ({"kernel": "nope"}, "kernel='nope': expected one of "),
        ({"spans": 3}, "spans=3, of type int; expected a tuple of rows of events"),
        ({"spans": (10**6,)}, "spans has 1000000; expected rows of events, whose number is "),
        ({"spans": (-1,)}, "spans has -1; expected rows of events"),
        ({"nodes": "relu"}, "nodes='relu', of type str; expected a tuple of names of nodes"),
        ({"nodes": ("zzz",)}, "nodes has 'zzz'; expected names of nodes, captured or lowered: "),
        ({"remedy": "j.with_(fusion='none')"}, "of type str; expected wb.Remedy(...)"),
        ({"remedy": wb.Remedy(None)}, "remedy.call=None, of type NoneType; expected text"),  # type: ignore[arg-type]
        ({"remedy": wb.Remedy("x", options="y")}, "remedy.options='y', of type str; expected a mapping"),  # type: ignore[arg-type]
        ({"remedy": wb.Remedy("x", machine={"nope": 1})}, "nope"),
    ],
)
def test_a_finding_that_does_not_fit_the_run_is_told_and_the_others_stand(
    given: dict[str, object], said: str, own_rules: None
):
    @wb.finding("odd")
    def odd(facts: wb.Facts) -> Iterator[wb.Finding]:
        yield wb.Finding(**{"kernel": "", "cycles": 100, "reason": "x", **given})  # type: ignore[arg-type]

    found = RELU.findings
    (told,) = found[found.rule == "odd"].reason
    assert told.startswith("the rule 'odd' failed: ") and said in told
    assert len(found) > 1


def test_a_finding_about_nodes_that_were_lowered_has_their_place():
    made = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    found = wb.trace(made, torch.randn(1, 3, 16, 16)).findings
    (missed,) = found[found.rule == "missed fusions"].itertuples()
    assert missed.nodes == ("relu", "conv2d_1.convolution") and "conv2d_1.convolution" in missed.reason
    assert "test_findings.py:" in missed.place
    assert not found.reason.str.contains(" failed: ").any()


def test_remedies_that_are_written_alike_are_measured_each_by_itself(own_rules: None):
    @wb.finding("two")
    def two(facts: wb.Facts) -> Iterator[wb.Finding]:
        for ns in (100.0, 50.0):
            remedy = wb.Remedy("less latency", machine={"dram_latency_ns": ns})
            yield wb.Finding("", int(ns), f"{ns}", remedy=remedy, predicted=1)

    tried = RELU.findings.tried()
    gains = tried[tried.rule == "two"].gain
    assert len(gains) == gains.nunique() == 2


def test_a_run_of_no_cycles_has_no_latency_in_the_open():
    views = wb.trace(lambda x: x.view(-1), torch.randn(4, 4), machine="tpu-v3")
    assert "latency in the open" not in set(views.findings.rule)


@pytest.mark.test_all
def test_a_loaded_journey_has_findings_and_says_what_needs_the_function(tmp_path: Path):
    live = wb.trace(nn.Conv2d(64, 64, 3, padding=1), torch.randn(1, 64, 14, 14), machine=ROW_AFTER_ROW)
    live.save(tmp_path / "saved.journey")
    found = wb.load(tmp_path / "saved.journey").findings
    assert found.drop(columns="place").equals(live.findings.drop(columns="place"))
    assert "channels outermost" in set(found.rule)
    tried = found.tried()
    (row,) = tried[tried.rule == "channels outermost"].itertuples()
    assert pd.isna(row.gain) and "was loaded from a file" in row.untried
    (launches,) = tried[tried.rule == "launches"].itertuples()
    assert launches.gain == launches.predicted and not launches.untried
    assert "was loaded from a file" in "".join(found.followed(3).untried)


@pytest.mark.test_all
def test_channels_last_is_tried_on_a_copy():
    layer, x = nn.Conv2d(64, 64, 3, padding=1), torch.randn(1, 64, 20, 20)
    tried = wb.trace(layer, x, machine=ROW_AFTER_ROW).findings.tried()
    row = tried[tried.rule == "channels outermost"].iloc[0]
    assert row.gain > 0 and pd.isna(row.predicted), "a changed layout has a schedule of its own"
    assert layer.weight.is_contiguous() and x.is_contiguous()


@pytest.mark.parametrize(("stride", "padding", "bias"), [(2, 3, True), ((1, 2), (0, 1), False)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_folded_window_is_the_same_convolution(layout: torch.memory_format, stride: int, padding: int, bias: bool):
    conv, x = nn.Conv2d(3, 8, (7, 5), stride=stride, padding=padding, bias=bias), torch.randn(2, 3, 20, 22)
    conv, x = conv.to(memory_format=layout), x.contiguous(memory_format=layout)  # type: ignore[call-overload]
    assert folds(conv) and not folds(nn.Conv2d(4, 8, 3, groups=2)) and not folds(nn.Linear(2, 2))
    made = folded_window(conv)(x)
    torch.testing.assert_close(made, conv(x), rtol=1e-5, atol=1e-5)
    assert made.is_contiguous(memory_format=layout)


def test_a_copy_of_a_folded_window_has_weights_of_its_own():
    model = folded_window(nn.Conv2d(3, 8, 3))
    copied, x = copy.deepcopy(model), torch.randn(1, 3, 8, 8)
    before = model(x)
    nn.init.zeros_(copied.conv.weight)  # type: ignore[union-attr]
    assert torch.equal(model(x), before) and not torch.equal(copied(x), before)


@pytest.mark.test_all
def test_a_first_convolution_fills_more_of_the_arrays_with_its_rows_folded():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU())
    journey = wb.trace(model, torch.randn(1, 3, 112, 112))
    row = journey.findings.tried().iloc[0]
    assert row.rule == "array filled in part" and "depth 3 of 128 rows" in row.reason
    assert pd.isna(row.predicted) and row.gain > journey.simulated.cycles / 2
    assert isinstance(model[0], nn.Conv2d)


def test_changes_that_there_are_not_are_refused():
    nothing = RELU.captured.record
    with pytest.raises(BadOption, match="there is no change 'sideways'"):
        changed("sideways", torch.relu, (), {}, nothing)
    with pytest.raises(BadOption, match="the trace is of a function"):
        changed("folded window:0", torch.relu, (), {}, nothing)
    with pytest.raises(BadOption, match="the module there is a Linear"):
        changed("folded window:0", nn.Sequential(nn.Linear(2, 2)), (), {}, nothing)


def _normed(*, hook: bool = False, twice: bool = False) -> nn.Module:
    conv = nn.Conv2d(16, 16, 3, padding=1)
    if hook:
        conv.register_forward_hook(lambda module, given, made: made.clamp(0, 1))
    norms = [nn.BatchNorm2d(16), nn.BatchNorm2d(16, affine=False)]
    for norm in norms:
        nn.init.uniform_(norm.running_mean)  # type: ignore[arg-type]
        nn.init.uniform_(norm.running_var, 0.5, 2)  # type: ignore[arg-type]
    after = [conv, norms[1]] if twice else [nn.Conv2d(16, 16, 1, bias=False), norms[1]]
    return nn.Sequential(conv, norms[0], nn.ReLU(), *after).eval()


@pytest.mark.test_all
def test_batch_norms_become_part_of_the_weights_of_a_copy():
    torch.manual_seed(0)
    model, x = _normed(), torch.randn(2, 16, 12, 12)
    j = wb.trace(model, x, machine="tpu-v4")
    tried = j.findings.tried()
    (row,) = tried[tried.rule == "batch norms to fold"].itertuples()
    assert "2 launches of 4 compute only 2 batch norms" in row.reason and row.gain > 0.1 * j.simulated.cycles
    made = j.changed("folded batch norms")
    assert len(made.scheduled.record.launches.launches) == 2 and made.check() and isinstance(model[1], nn.BatchNorm2d)
    torch.testing.assert_close(made.run(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.test_all
def test_a_model_in_training_mode_is_told_and_its_copy_is_not():
    model = _normed().train()
    j = wb.trace(model, torch.randn(2, 16, 12, 12))
    made = j.changed("evaluation mode")
    assert model.training and "training mode" not in set(made.findings.rule)
    assert made.check() and made.simulated.cycles < j.simulated.cycles
    with pytest.raises(wb.WorkbenchError, match="'evaluation mode' is for modules, but the trace is of a function"):
        RELU.changed("evaluation mode")


@pytest.mark.test_all
@pytest.mark.parametrize("twice", [False, True])
def test_evaluation_takes_what_goes_along_with_the_norm_and_no_more_than_is_at_stake(twice: bool):
    """Relu is in one kernel with the norm, which goes with the product in evaluation. A convolution that runs twice
    does so before each of two norms."""
    j = wb.trace(_normed(twice=twice).train(), torch.randn(2, 16, 12, 12))
    tried = j.findings.tried().table
    (row,) = tried[tried.rule == "training mode"].itertuples()
    assert pd.isna(row.predicted) and 0 < row.gain <= row.cycles


def test_a_missed_fusion_stands_at_the_line_of_the_kernel_that_reads():
    def reads_twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x @ w).relu()
        return y.t() @ y

    found = wb.trace(reads_twice, torch.randn(64, 64), torch.randn(64, 64)).findings.table
    missed = found[(found.rule == "missed fusions") & (found.kernel != "")]
    lines, first = inspect.getsourcelines(reads_twice)
    reader = first + next(number for number, line in enumerate(lines) if "y.t()" in line)
    assert len(missed) and all(place.endswith(f":{reader}") for place in missed.place)


def test_launches_show_the_first_span_of_each():
    j = wb.trace(lambda x, w: (x @ w).relu() @ w, torch.randn(64, 64), torch.randn(64, 64), fusion="none")
    (record,) = (each for each in j.findings.records if each.rule == "launches")
    events = j.simulated.events
    begins = events.groupby("launch").start
    assert len(record.spans) == begins.ngroups == 3
    assert [events.start[span] for span in record.spans] == begins.min().tolist()


def test_what_there_is_to_follow_is_said():
    nothing = wb.trace(lambda x: x.view(-1), torch.randn(4, 4), machine="tpu-v3").findings.followed(same_machine=True)
    assert repr(nothing).splitlines()[-1] == "no finding has a remedy to follow"


@pytest.mark.test_all
def test_a_batch_norm_after_a_linear_layer_is_folded_too():
    model, x = nn.Sequential(nn.Linear(32, 24), nn.BatchNorm1d(24)).eval(), torch.randn(40, 32)
    made = wb.trace(model, x).changed("folded batch norms")
    torch.testing.assert_close(made.run(x), model(x), rtol=1e-4, atol=1e-5)
    assert len(made.scheduled.record.launches.launches) == 1


@pytest.mark.test_all
def test_only_batch_norms_that_can_be_folded_are():
    """A hook's effect would be lost, two readers need the layer's own result, and training has other figures."""
    x = torch.randn(2, 16, 12, 12)
    half = wb.trace(_normed(hook=True), x).changed("folded batch norms")
    assert len(half.scheduled.record.launches.launches) == 3, "the second pair has no hook"
    for model in (
        _normed(twice=True),
        _normed().train(),
        nn.Sequential(nn.BatchNorm2d(16), nn.Conv2d(16, 8, 1)).eval(),
    ):
        j = wb.trace(model, x)
        assert "batch norms to fold" not in set(j.findings.rule)
        with pytest.raises(wb.WorkbenchError, match="'folded batch norms': no batch norm can be folded"):
            j.changed("folded batch norms")
    with pytest.raises(wb.WorkbenchError, match="'folded batch norms' is for modules, but the trace is of a function"):
        RELU.changed("folded batch norms")


@pytest.mark.test_all
def test_refusals_for_one_reason_are_one_finding():
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()) for _ in range(4))).eval()
    found = wb.trace(model, torch.randn(1, 8, 16, 16)).findings
    (missed,) = found[found.rule == "missed fusions"].itertuples()
    assert "relu -> conv2d_1.convolution and 2 more: " in missed.reason and missed.reason.count("because") == 1
    assert missed.nodes[:4] == ("relu", "conv2d_1.convolution", "relu_1", "conv2d_2.convolution")


@pytest.mark.test_all
def test_remedies_are_followed_one_after_another_on_copies():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 7, stride=2, padding=3), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1)).eval()
    journey = wb.trace(model, torch.randn(1, 3, 56, 56), machine=ROW_AFTER_ROW)
    told = journey.findings.followed(3, same_machine=True)
    assert told.rule.tolist()[:3] == ["", "array filled in part", "channels outermost"]
    assert told.cycles[0] == journey.simulated.cycles and told.kept.all()
    assert (told.cycles.diff()[1:] == -told.gain[1:]).all() and (told.gain[1:] > 0).all()
    assert isinstance(model[0], nn.Conv2d) and model[0].weight.is_contiguous()
    assert not told.remedy.str.contains("machine").any()
    first = journey.findings.followed(1, same_machine=True)
    assert ".followed(" in repr(first).splitlines()[-1] and "goes on" in first._repr_html_()
    assert "same_machine=True) goes on" in repr(first)


def test_remedies_of_other_hardware_are_told_and_can_be_left_out():
    found = softmax().findings
    of_machines = [each.remedy is not None and bool(each.remedy.machine) for each in found.records]
    assert any(of_machines)
    assert " ".join(repr(found).split()).count("try other hardware: j.with_(machine=") == sum(of_machines)
    tried = found.tried(same_machine=True)
    left = tried.untried == "not tried: it changes the machine"
    assert left.tolist() == of_machines and tried.gain[left].isna().all()
    assert " ".join(repr(tried).split()).count("not tried: it changes the machine") == sum(of_machines)
    found.tried()
    again = found.tried(same_machine=True)
    assert "measured" not in repr(again), "what was measured before is not told beside 'not tried'"
    followed = found.followed(same_machine=True)
    assert len(followed) == 1 and "left that need another machine: call it without same_machine=True" in repr(followed)


def test_parts_and_copies_of_the_tables_are_plain_or_say_what_they_lack():
    found = softmax().findings
    assert type(pickle.loads(pickle.dumps(found))) is pd.DataFrame
    for table in (found, found.tried(), found.followed(1)):
        assert repr(type(table)(table)) and type(table)(table)._repr_html_()
    short = softmax().findings
    short.drop(index=[0], inplace=True)
    assert repr(short) and short.cards == ()
    with pytest.raises(BadOption, match="these rows are only some of a journey's findings"):
        short.tried()
    steps = found.followed(1)
    steps.drop(columns=["cycles"], inplace=True)
    assert repr(steps) and steps._repr_html_()


def test_what_saves_nothing_is_not_kept(own_rules: None):
    rule_registry._RULES._functions.clear()

    @wb.finding("slower memory")
    def slower_memory(facts: wb.Facts) -> Iterator[wb.Finding]:
        remedy = wb.Remedy("j.with_(machine=j.machine.with_(dram_latency_ns=1000), ...)", options={"mapping": None})
        yield wb.Finding("", facts.cycles, "a promise", remedy=remedy, predicted=10)

    told = softmax().findings.followed()
    assert told.kept.tolist() == [True, False] and told.gain[1] == 0 and told.predicted[1] == 10


def test_a_remedy_that_is_not_expected_to_save_anything_is_not_given(own_rules: None):
    @wb.finding("slower memory")
    def slower_memory(facts: wb.Facts) -> Iterator[wb.Finding]:
        call = "j.with_(machine=j.machine.with_(dram_latency_ns=1000))"
        yield wb.Finding("", facts.cycles, "why not", remedy=wb.Remedy(call, machine={"dram_latency_ns": 1000}))

    (row,) = softmax().findings.query("rule == 'slower memory'").itertuples()
    assert row.remedy == "" and pd.isna(row.predicted)


def test_steps_are_a_number():
    with pytest.raises(ValueError, match="steps=0: expected the number of remedies to follow"):
        softmax().findings.followed(0)


@pytest.mark.test_all
def test_mappings_keep_the_tiles_on_another_machine():
    journey = wb.trace(nn.Sequential(nn.Linear(64, 96), nn.Softmax(1)), torch.randn(40, 64), machine="edge-8x8")
    faster = journey.with_(machine=journey.machine.with_(dram_latency_ns=10), mapping=journey.scheduled.mappings)
    for made, before in zip(faster.scheduled.kernels, journey.scheduled.kernels, strict=True):
        assert made.mapping.tile == before.mapping.tile and made.program == before.program


def _images() -> tuple[nn.Sequential, torch.Tensor]:
    return nn.Sequential(nn.Conv2d(3, 16, 5, padding=2), nn.ReLU()).eval(), torch.randn(1, 3, 56, 56)


@pytest.mark.test_all
def test_a_remedy_is_a_line_of_python_and_leaves_the_traced_model_alone():
    model, x = _images()
    j = wb.trace(model, x, machine="tpu-v4")
    call = next(each for each in j.findings.remedy if "folded_window" in each)
    names: dict[str, Any] = {"j": j, "wb": wb, "model": copy.deepcopy(model)}
    made = eval(call, names)
    assert isinstance(model[0], nn.Conv2d) and j.check()
    assert made.machine == j.machine and made.check() and made.simulated.cycles < j.simulated.cycles
    exec(call.partition("where model is the traced one: ")[2].partition(",")[0], names)
    torch.testing.assert_close(names["model"](x), model(x))


@pytest.mark.test_all
def test_remedies_that_were_followed_run_one_after_the_other():
    j = wb.trace(*_images(), machine="tpu-v4")
    followed = j.findings.followed(3)
    names: dict[str, Any] = {"j": j}
    for row in followed.iloc[1:].itertuples():
        exec(str(row.remedy), names)
        assert names[f"j{row.step}"].simulated.cycles == row.cycles
    assert followed.kept.sum() > 2 and "j1." in followed.remedy[2]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (None, TypeError, "change=None, of type NoneType; expected text"),
        (
            "faster",
            wb.WorkbenchError,
            "there is no change 'faster'. The changes are 'bfloat16', 'channels last', 'evaluation mode', 'folded",
        ),
        ("channel last", wb.WorkbenchError, "there is no change 'channel last'; did you mean 'channels last'?"),
        ("folded window:7", wb.WorkbenchError, "'folded window:7': the traced model has no module at '7'"),
        ("folded window:1", wb.WorkbenchError, "the module there is a ReLU; expected a plain Conv2d"),
    ],
)
def test_a_change_has_a_name(change: Any, error: type[Exception], said: str):
    with pytest.raises(error, match=said):
        wb.trace(*_images()).changed(change)


def test_a_model_that_was_changed_after_its_trace_is_told():
    model, x = _images()
    j = wb.trace(model, x)
    model.to(memory_format=torch.channels_last)
    assert j.findings.tried().untried.str.contains("0.weight was traced as .* The model has changed since").any()
    model[0] = wb.folded_window(model[0])  # type: ignore[arg-type]
    with pytest.raises(
        wb.WorkbenchError,
        match=r"0\.\w+ was found when the function was traced, but is gone now .* copy\.deepcopy\(model\)",
    ):
        j.check()


@pytest.mark.usefixtures("own_rules")
def test_a_rule_that_gives_something_else_is_named():
    @wb.finding("of words")
    def of_words(facts: wb.Facts):
        return ["x"]

    @wb.finding("of figures")
    def of_figures(facts: wb.Facts):
        yield wb.Finding(facts.kernels[0].name, "12", "r")  # type: ignore[arg-type]

    said = wb.trace(torch.relu, torch.ones(3)).findings.reason
    for wrong in (
        "the rule 'of words' failed: TypeError: it yielded 'x', of type str; expected wb.Finding",
        "the rule 'of figures' failed: TypeError: cycles='12', of type str; expected a whole number of cycles",
    ):
        assert said.str.startswith(wrong).any()


class Doubled(nn.Conv2d):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) * 2


@pytest.mark.test_all
def test_only_a_plain_convolution_is_folded():
    """The effect of a subclass or a hook would be lost."""
    hooked = nn.Conv2d(3, 16, 5, padding=2)
    hooked.register_forward_hook(lambda module, given, made: made.clamp(0, 1))
    for model in (hooked, Doubled(3, 16, 5, padding=2)):
        found = wb.trace(model.eval(), torch.randn(1, 3, 56, 56)).findings
        assert not found.remedy.str.contains("folded_window").any() and not folds(model)


@pytest.mark.parametrize(
    "drawn",
    [
        lambda x: F.rrelu(x, training=True) + F.rrelu(x, training=True),
        lambda x: x.clone().normal_() + x.clone().normal_(),
        lambda x: x.clone().exponential_() + x.clone().exponential_(),
    ],
)
@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
def test_drawn_numbers_are_never_the_same(drawn: Callable[[torch.Tensor], torch.Tensor]):
    assert "computed twice" not in set(wb.trace(drawn, torch.randn(64, 64)).findings.rule)


def test_images_without_a_batch_have_findings():
    found = wb.trace(nn.Conv2d(3, 8, 3, padding=1).eval(), torch.randn(3, 16, 16), machine="edge-8x8").findings
    assert not found.reason.str.contains("failed").any()


def test_a_missed_fusion_is_worth_what_the_kernels_move():
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(x)
        return y[:1].cumsum(1), y.sum()

    j = wb.trace(function, torch.randn(512, 256), machine="edge-8x8", fusion={"off": ["several results"]})
    missed = j.findings[j.findings.rule == "missed fusions"]
    (row,) = missed.itertuples()
    assert row.kernel == "k2_sum" and "relu -> sum: 524,288 bytes come back" in row.reason, "cumsum reads a row of it"
    assert row.cycles <= j.simulated.cycles


@pytest.mark.test_all
def test_what_stays_in_the_common_memory_has_not_gone_out():
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).cumsum(0)

    given = torch.randn(256, 256), torch.randn(256, 256)
    apart, kept = (wb.trace(function, *given, machine="tpu-v4", resident=how) for how in (None, "auto"))
    assert "missed fusions" in set(apart.findings.rule)
    assert not kept.findings.reason.str.contains("262,144 come back").any()


def test_channels_innermost_are_no_advice_where_there_are_few():
    found = wb.trace(nn.Conv2d(3, 16, 5, padding=2).eval(), torch.randn(1, 3, 56, 56)).findings
    assert "channels outermost" not in set(found.rule)


@pytest.mark.test_all
def test_what_was_tried_and_followed_is_read_whole():
    """The calls are to be run, so they are never cut; a part of the rows is a plain table."""
    journey = wb.trace(torch.softmax, torch.randn(64, 64), 1)
    tried = journey.findings.tried()
    for text in (repr(tried), tried._repr_html_()):
        assert "measured: saves" in text and "…" not in text and "..." not in text
    assert set(pd.DataFrame(tried).columns) == {*journey.findings.columns, "gain", "untried"}
    assert "gain" in repr(tried[["rule", "gain"]]).splitlines()[0]
    followed = journey.findings.followed(3)
    calls = [call for call in followed.remedy if call]
    assert calls
    for call in calls:
        assert call in repr(followed) and html.escape(call) in followed._repr_html_()
    assert "as it is" in repr(followed) and type(followed[["rule"]]) is pd.DataFrame


def test_a_changed_journey_is_called_by_what_was_changed():
    journey = wb.trace(nn.Conv2d(3, 8, 3), torch.randn(1, 3, 16, 16), machine="tpu-v3")
    assert repr(journey.changed("channels last")).startswith("Journey('Conv2d' on tpu-v3")


@pytest.mark.test_all
def test_one_slot_that_is_waited_for_has_more_slots_for_a_remedy():
    mapping = {"k0_matmul": {"tile": {"m": 128, "n": 128, "k": 128}, "buffers": 1}}
    a = torch.randn(512, 512)
    findings = wb.trace(torch.matmul, a, a, machine="tpu-v3", mapping=mapping).findings.tried()
    (row,) = findings[findings.rule == "waits for slots"].itertuples()
    assert "'buffers': 2" in row.remedy and 0.9 < row.predicted / row.gain < 1.1


def test_a_product_deeper_than_the_array_passes_through_it_several_times():
    a, b = torch.randn(64, 256), torch.randn(256, 8)
    journey = wb.trace(torch.matmul, a, b, machine="tpu-v3", mapping={"*": {"tile": {"m": 64, "n": 8, "k": 256}}})
    reasons = " ".join(journey.findings.reason)
    assert "depth 256 of 2 times 128 rows, 8 of 128 columns" in reasons


def test_one_remedy_that_is_left_is_told_as_one():
    told = findings_answer._what_is_left(step_count=1, left=0, others=1, same_machine=True)
    assert told == "1 remedy is left that needs another machine: call it without same_machine=True to follow it"


def test_rows_with_cycles_at_stake_say_that_they_do_not_add_up():
    """Two rows have the transfers of one kernel at stake: together they would be more than the run."""
    j = wb.trace(lambda x: x * 2 + 1, torch.randn(512, 512), machine="edge-8x8")
    several, one = j.findings, Card("launches", "", "", "", "", 10, 100)
    assert several.cycles.sum() > j.simulated.cycles
    for told in (" ".join(repr(several).split()), several._repr_html_()):
        assert "Rows may have the same cycles at stake, so they do not add up" in told
    assert "add up" not in cards_text([one], 80, 5) + cards_html([one], 5)
