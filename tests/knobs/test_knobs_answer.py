"""Tests the knobs of a journey, and that they refuse exactly what scheduling refuses."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import workbench as wb
from simulator.errors import MachineError
from workbench.exploring.knobs.knob import text_of, value_from
from workbench.exploring.knobs.names_explained import FIGURE_WORDS, dim_words
from workbench.ground.errors import BadOption, MappingError


@pytest.fixture(scope="module")
def ffn() -> wb.Journey:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32))
    return wb.trace(module, torch.randn(40, 48), machine=wb.machine("tpu-v3", cores=2))


@pytest.mark.test_all
def test_the_knobs_have_the_mappings_values_and_their_ends_are_those_of_scheduling(ffn: wb.Journey):
    knobs = ffn.knobs("k0")
    handle = ffn.scheduled.kernels[0]
    assert knobs.kernel == handle.name == "k0_linear_gelu"
    assert {name: knobs[f"tile.{name}"].value for name in handle.dims} == handle.mapping.tile
    assert (knobs["order"].value, knobs["buffers"].value) == (handle.mapping.order, handle.mapping.buffers)
    ends = [(f"tile.{dim}", extent) for dim, extent in handle.dims.items()]
    for name, most in [*ends, ("cores.n", 2)]:
        assert knobs[name].range == f"1 to {most:,}"
        assert knobs.why_not(name, 1) == "" == knobs.why_not(name, most)
        assert knobs.why_not(name, most + 1) and knobs.why_not(name, 0), name
    most = int(knobs["buffers"].range.rpartition(" ")[2].replace(",", ""))
    assert knobs.why_not("buffers", most) == ""
    assert f"buffers = {most + 1:,}" in knobs.why_not("buffers", most + 1)


@pytest.mark.test_all
def test_dims_are_told_in_words():
    conv = wb.trace(nn.Conv2d(3, 8, 3, groups=1), torch.randn(1, 3, 12, 12), machine="edge-8x8").knobs("k0")
    assert conv["tile.kh"].about == "rows of the window" and conv["tile.ic"].about == "channels that are summed"
    table = conv.table.set_index("knob").about
    tiles = [name for name in table.index if name.startswith("tile.")]
    assert table[tiles].all() and table["order"] and table["buffers"] == "tiles of an operand at a time"
    sums = wb.trace(lambda x: x.sum((0, 2)), torch.randn(4, 5, 6)).knobs("k0")
    assert sums["tile.d1"].about == "axis 1" and dim_words("kw1") == "columns of the window" and not dim_words("mine")


def test_a_mapping_that_was_given_by_its_number_is_said_once():
    given = torch.randn(64, 64), torch.randn(64, 64)
    j = wb.trace(torch.matmul, *given, mapping={"k0": {"tile": {"m": 8}}, "*": {"buffers": 1}})
    call = j.knobs("k0").call("tile.m", 16)
    assert "'k0':" not in call and call.count("'k0_matmul':") == 1 and "'*'" in call
    assert eval(call, {"j": j}).scheduled.kernels[0].mapping.tile["m"] == 16


def test_a_knob_is_found_by_its_last_word(ffn: wb.Journey):
    with pytest.raises(BadOption, match=r"there is no knob 'm'; did you mean 'tile.m'\?"):
        ffn.knobs("k0").turned("m", 8)


@pytest.mark.test_all
def test_a_refused_value_says_what_with_would_raise(ffn: wb.Journey):
    knobs = ffn.knobs("k0")
    with pytest.raises(MappingError) as raised:
        knobs.turned("tile.m", 4000)
    assert str(raised.value).startswith(knobs.why_not("tile.m", 4000))
    assert "a reduction is not split" in knobs.why_not("cores.k", 2)
    small = ffn.with_(machine=wb.machine("edge-8x8", scratchpad_bytes_per_lane=512))
    told = small.knobs("k0").values("tile.m")
    assert told.allowed.any() and not told.allowed.all()
    assert all("bytes of scratchpad" in why for why in told.why_not[~told.allowed])
    whole = ffn.with_(mapping={"k0_linear_gelu": {"tile": {"m": 8, "n": 16, "k": 16}}})
    orders = whole.knobs("k0").values("order")
    assert len(orders) == 6 and orders.allowed.all()


@pytest.mark.test_all
def test_a_knob_turns_one_thing_and_its_call_makes_the_same_journey(ffn: wb.Journey):
    j = ffn
    knobs = j.knobs("k0")
    turned = knobs.turned("tile.m", 8)
    before, after = j.scheduled.kernels[0].mapping, turned.scheduled.kernels[0].mapping
    assert after.tile == before.tile | {"m": 8}
    assert (after.order, after.buffers, after.cores) == (before.order, before.buffers, before.cores)
    for name, value in (
        ("tile.m", 8),
        ("buffers", 1),
        ("cores.m", 1),
        ("machine.vector_lanes", 64),
        ("fusion.product epilogue", False),
    ):
        again = eval(knobs.call(name, value), {"j": j})  # what a reader would paste
        assert again.simulated.cycles == knobs.turned(name, value).simulated.cycles, name
        texts = [[each.mlir for each in made.scheduled.kernels] for made in (again, knobs.turned(name, value))]
        assert texts[0] == texts[1], name


@pytest.mark.test_all
def test_todays_value_of_every_kernels_knob_changes_nothing(ffn: wb.Journey):
    for kernel in ffn.lowered.record.kernels:
        knobs = ffn.knobs(kernel.name)
        for knob in knobs.knobs:
            if knob.kernel:
                assert knobs.turned(knob.name, knob.value).simulated.cycles == ffn.simulated.cycles, knob.name


def test_fusion_rules_add_to_those_that_are_off_and_nodes_kept_apart_stay_so(ffn: wb.Journey):
    apart = ffn.with_(fusion={"off": ["reduction prologue"], "apart": [("linear", "gelu")]})
    knobs = apart.knobs()
    assert knobs["fusion.reduction prologue"].value is False and knobs["fusion.product epilogue"].value is True
    assert knobs.call("fusion.product epilogue", False) == (
        "j.with_(fusion={'off': ['reduction prologue', 'product epilogue'], 'apart': [('linear', 'gelu')]})"
    )
    assert knobs.call("fusion.reduction prologue", True) == "j.with_(fusion={'apart': [('linear', 'gelu')]})"
    assert all(knob.value is False for knob in ffn.with_(fusion="none").knobs().knobs if knob.kind == "fusion")
    with pytest.raises(BadOption, match="expected True or False"):
        knobs.turned("fusion.product epilogue", "off")


def test_every_figure_of_the_machine_is_a_knob_with_its_range(ffn: wb.Journey):
    knobs = ffn.knobs()
    figures = {knob.item: knob for knob in knobs.knobs if knob.kind == "machine"}
    assert set(figures) == set(ffn.machine.figures()) - {"name", "core_figures"}
    assert figures["memory"].values == ("simple", "banked") and figures["memory"].range == "one of simple, banked"
    assert figures["cores"].range == "1 to 4,096" and figures["issue_window"].range == "1 or more"
    assert set(FIGURE_WORDS) <= set(figures), "words of a figure that there is not"
    assert figures["vector_lanes"].about == FIGURE_WORDS["vector_lanes"] and figures["clock_mhz"].about == ""
    assert all(knob.about for knob in knobs.knobs if knob.kind == "fusion")
    energies = [figure.about for name, figure in figures.items() if "_pj" in name]
    assert len(energies) == 7 and all("j.simulated.energy alone" in about for about in energies)
    assert "expected at most 4,096" in knobs.why_not("machine.cores", 4097)
    assert "more than zero" in knobs.why_not("machine.cores", 0)
    with pytest.raises(MachineError):
        knobs.turned("machine.cores", 4097)


def test_the_layout_is_a_knob_where_tensors_are_padded(ffn: wb.Journey):
    row_after_row = ffn.with_(machine=ffn.machine.with_(dram_tile=""))
    assert "layout" not in [knob.name for knob in row_after_row.knobs().knobs]
    j = wb.trace(torch.add, torch.randn(400, 24), torch.randn(400, 24), machine="tpu-v3")
    knobs = j.knobs()
    layout = knobs["layout"]
    assert (layout.value, layout.values) == ("least", ("given", "least")) and "in DRAM" in layout.about
    assert knobs.call("layout", "given") == "j.with_(layout='given')" and "layout" in knobs.text()
    assert "layout in DRAM" in knobs.html() and "layout in DRAM" not in row_after_row.knobs().html()
    given = knobs.turned("layout", "given")
    assert given.simulated.cycles > j.simulated.cycles and given.knobs()["layout"].value == "given"
    assert "did you mean 'least'?" in knobs.why_not("layout", "leats")
    named = j.with_(layout={"add": (0, 1)})
    assert "layout" not in [knob.name for knob in named.knobs().knobs]  # a word would lose the orders


def test_names_that_are_not_there_are_told(ffn: wb.Journey):
    with pytest.raises(BadOption, match=r"no kernel has the name 'k7'.*k0_linear_gelu, k1_linear"):
        ffn.knobs("k7")
    with pytest.raises(BadOption, match=r"no knob 'tile.q'; did you mean 'tile\.\w'"):
        ffn.knobs("k0")["tile.q"]
    with pytest.raises(BadOption, match=r"no knob 'tile\.m'; a kernel has knobs of its own: give kernel="):
        ffn.knobs()["tile.m"]


@pytest.mark.test_all
def test_a_kernel_goes_by_its_title_where_no_other_has_it():
    model = nn.Sequential(OrderedDict(c1=nn.Linear(64, 64), act=nn.GELU(), c2=nn.Linear(64, 64), c3=nn.Linear(64, 64)))
    j = wb.trace(model, torch.randn(8, 64))
    assert j.scheduled.titles["k0_linear_gelu"] == "c1 + act"
    assert (
        j.knobs("c1").kernel == j.knobs("c1 + act").kernel == "k0_linear_gelu" and j.knobs("c2").kernel == "k1_linear"
    )
    assert j.experiment().turn("tile.m", 4, kernel="c3").wait().call == (
        j.experiment().turn("tile.m", 4, kernel="k2").wait().call
    )
    with pytest.raises(BadOption, match="no kernel has the name 'c4'"):
        j.knobs("c4")
    apart = wb.trace(lambda x: x.softmax(1), torch.randn(64, 64), fusion="none")
    assert apart.knobs("softmax (exp)").kernel == "k2_softmax"
    with pytest.raises(BadOption, match=r"'softmax' is in the titles of \d kernels: name one of k0_softmax, "):
        apart.knobs("softmax")


def test_a_script_leaves_only_the_buffers_to_be_turned(ffn: wb.Journey):
    scripted = ffn.with_(schedule={"k0_linear_gelu": ffn.scheduled.kernels[0].schedule})
    assert [knob.name for knob in scripted.knobs("k0").knobs if knob.kernel] == ["buffers"]


def test_a_templates_tile_is_turned_as_any_other_and_it_deals_out_cores_itself():
    with wb.ops.scope():
        from templates.foobar import FoobarTiled, register_fake

        register_fake()
        wb.ops.template("aten._foobar.default")(FoobarTiled)
        j = wb.trace(lambda x: torch.ops.aten._foobar(x), torch.randn(64, 96), machine=wb.machine("tpu-v3", cores=2))
        knobs = j.knobs("k0")
        assert knobs.why_not("tile.d0", 4) == ""
        assert knobs.turned("tile.d0", 4).scheduled.kernels[0].mapping.tile["d0"] == 4
        assert "a template divides its work over the cores itself" in knobs.why_not("cores.d0", 2)


def test_a_loaded_journey_has_knobs(ffn: wb.Journey, tmp_path: Path):
    ffn.save(tmp_path / "ffn.journey")
    loaded = wb.load(tmp_path / "ffn.journey")
    assert loaded.knobs("k0").table.equals(ffn.knobs("k0").table)
    assert loaded.knobs("k0").turned("tile.m", 8).simulated.cycles == (
        ffn.knobs("k0").turned("tile.m", 8).simulated.cycles
    )


def test_how_they_read(ffn: wb.Journey):
    knobs = ffn.knobs("k0")
    assert repr(knobs).startswith("Knobs(8 of 'k0_linear_gelu', ")
    assert "tile.m" in knobs.text() and "tile.m" in knobs.html() and "machine.vector_lanes" in knobs.html()
    assert [text_of(value) for value in (True, 1024, 0.5, ("m", "n"))] == ["on", "1,024", "0.5", "m n"]


def test_what_is_typed_becomes_a_value_of_the_knobs_kind(ffn: wb.Journey):
    knobs = ffn.knobs("k0")
    for knob in knobs.knobs:
        for value in knob.values:
            assert value_from(knob, text_of(value)) == value
    long = replace(knobs["machine.clock_mhz"], values=(940.123456789,))
    assert value_from(long, text_of(940.123456789)) == 940.123456789  # of which a person reads six digits
    assert value_from(knobs["order"], "n, m k") == ("n", "m", "k")
    assert value_from(knobs["machine.clock_mhz"], "940.5") == 940.5
    for name, text in (("tile.m", "a few"), ("fusion.elementwise chain", "maybe")):
        with pytest.raises(BadOption, match=f"{name} = '{text}': expected"):
            value_from(knobs[name], text)
