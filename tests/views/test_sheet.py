"""The style sheet: a fragment brings what it uses of it, and one colour stands for one thing."""

from __future__ import annotations

import itertools
import re

import pytest

from simulator import Cause
from simulator.records.spans import Wait
from simulator.tileprogram.program import Opcode
from simulator.units.unit_table import STALLS
from workbench.ground.basics import markup
from workbench.ground.basics.colours import DARK, HUES, LIGHT, Style, colour_of_step
from workbench.ground.basics.style_sheet import Sheet

RULES = """
.wb{color:var(--ink)}.wb b,.wb .none{color:red}
.wb .scroll.tall{color:var(--loud)}.wb table td.r{border:var(--line)}.wb .code .n::before{content:attr(data-n)}
"""
SHEET = Sheet(
    RULES,
    {"ink": "var(--jp-x,#111)", "loud": "#f00", "line": "#ccc", "k": "#00f"},
    {"ink": "var(--jp-x,#eee)", "loud": "#f00", "line": "#333", "k": "#88f"},
)


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ("text", [".wb{color:var(--ink)}"]),
        ("<b>bold</b>", [".wb{color:var(--ink)}", ".wb b{color:red}"]),
        ('<p class="none">', [".wb{color:var(--ink)}", ".wb .none{color:red}"]),
        ('<p class="scroll">', [".wb{color:var(--ink)}"]),
        ('<p class="scroll tall">', [".wb{color:var(--ink)}", ".wb .scroll.tall{color:var(--loud)}"]),
        ('<table><td class="r">', [".wb{color:var(--ink)}", ".wb table td.r{border:var(--line)}"]),
        ('<i class="code"><i class="n">', [".wb{color:var(--ink)}", ".wb .code .n::before{content:attr(data-n)}"]),
    ],
)
def test_only_rules_that_can_apply(body: str, rules: list[str]):
    text = SHEET.used_by(body)
    assert text.endswith("color-scheme:dark}" + "".join(rules))
    used = set(re.findall(r"var\(--(\w+)", "".join(rules)))
    assert set(re.findall(r"--(\w+):", text)) == used


def test_variables_of_the_fragment_itself_and_both_themes_at_once():
    text = SHEET.used_by('<b style="color:var(--k)">')
    assert "--k:light-dark(#00f,#88f);" in text and "--ink:var(--jp-x,light-dark(#111,#eee));" in text
    assert "--loud:#f00;" in SHEET.whole()


def test_a_fragment_of_a_table_is_a_fraction_of_the_sheet():
    table = '<div class="scroll"><table class="t"><tr><td class="r">1</td></tr></table></div>'
    assert len(markup.SHEET.used_by(table)) < len(markup.SHEET.whole()) / 3


def parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


@pytest.mark.parametrize(("style", "tone"), [(LIGHT, 0), (DARK, 1)], ids=["light", "dark"])
def test_one_colour_stands_for_one_thing(style: Style, tone: int):
    hues = {f"hue {place}": hue[tone] for place, hue in enumerate(HUES)}
    named = {**style.kinds, **style.causes, **style.waits, **hues, "busy": style.busy}
    for (one, colour), (other, beside) in itertools.combinations(named.items(), 2):
        assert colour.lower() != beside.lower(), (one, other)
    for kind, colour in style.kinds.items():
        apart = max(abs(a - b) for a, b in zip(parts(style.busy), parts(colour), strict=True))
        assert apart > 40 or kind == "BARRIER", kind


def bright(colour: str) -> float:
    """Relative luminance, as the guidelines for contrast define it."""
    shares = (part / 255 for part in parts(colour))
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize(
    ("style", "pale"), [(LIGHT, {"OTHER", "COPY", "VECTOR"}), (DARK, {"OTHER"})], ids=("light", "dark")
)
def test_work_stands_out_from_the_ground(style: Style, pale: set[str]):
    """OTHER is meant to be faint; Okabe and Ito's sky blue and orange are as pale as these are on white."""
    for ground in (style.ground, style.band):
        for kind in style.kinds.keys() - pale - ({"DIRECT"} if ground == LIGHT.band else set[str]()):
            lighter, darker = sorted((bright(style.kinds[kind]), bright(ground)), reverse=True)
            assert (lighter + 0.05) / (darker + 0.05) >= 3, (kind, ground)


def test_gathers_are_told_apart_from_loads_and_copies_by_brightness():
    """And scatters from stores: hues alone are not seen by everybody."""
    for style in (LIGHT, DARK):
        for dark, lights in (("GATHER", ("LOAD", "COPY")), ("SCATTER", ("STORE",))):
            for light in lights:
                assert (bright(style.kinds[light]) + 0.05) / (bright(style.kinds[dark]) + 0.05) > 1.5


def test_steps_of_the_critical_path_have_the_colours_of_the_timeline():
    assert colour_of_step("load transfer") == "var(--k-LOAD)" == colour_of_step("common memory load transfer")
    assert colour_of_step("load latency").startswith("var(--k-LOAD);opacity:")
    assert colour_of_step("scalar accesses") == "var(--k-DIRECT)"
    assert colour_of_step("launch") == "var(--c-launch)"
    for wait in (*(each.label for each in Wait if each != Wait.MEMORY_BUS), *STALLS):
        assert wait in LIGHT.waits and wait in DARK.waits
    assert colour_of_step("store memory_row") == "var(--c-memory_row)"
    assert colour_of_step("load memory_peak") == "var(--c-memory_peak)"
    for kind in Opcode:
        if kind != Opcode.DIRECT:
            assert colour_of_step(kind.name.lower()) in (f"var(--k-{kind.name})", f"var(--c-{kind.name.lower()})")
    assert colour_of_step(Cause.ISSUE.label) == "var(--c-issue)"
