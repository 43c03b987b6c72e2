"""One builder of HTML: all that is put into a tag is escaped, and what is shown of a text is bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from markupsafe import Markup

from workbench.ground.basics import highlight, markup, mlir_diff
from workbench.ground.basics.html_builder import MOST_LETTERS, as_html, escaped, html, inside_script, joined
from workbench.ground.basics.table import Table


def test_text_is_escaped_and_html_is_not() -> None:
    inner = html("<i>{}</i>", "a < b & c")
    assert inner == "<i>a &lt; b &amp; c</i>"
    assert html('<b title="{told}">{}</b>', inner, told='"x" onclick=y') == (
        '<b title="&#34;x&#34; onclick=y"><i>a &lt; b &amp; c</i></b>'
    )
    assert joined([inner, html("<br>")]) + "<p>" == "<i>a &lt; b &amp; c</i><br>&lt;p&gt;"
    assert html("{:,} {:.1f}", 1234, 0.25) == "1,234 0.2"
    assert isinstance(as_html("<"), Markup) and as_html(inner) is inner


def test_half_a_letter_is_written_as_its_number() -> None:
    assert escaped("a\ud800b") == "a\\ud800b"
    escaped("a\ud800b").encode()


def test_a_long_text_is_cut_and_says_so() -> None:
    assert escaped("x" * (MOST_LETTERS + 1500)).endswith("xx… and 1,500 more letters")


def test_no_word_of_a_script_ends_it() -> None:
    assert "</script" not in inside_script("a = '</script>'") and "<!--" not in inside_script("'<!--'")


def test_many_lines_and_rows_are_counted() -> None:
    shown = highlight.code("x\n" * (highlight.MOST_LINES + 9000))
    assert shown.count('<div class="l"') == highlight.MOST_LINES and "… and 9,000 more lines" in shown
    table = markup.table(Table(("a",), tuple((number,) for number in range(5000))))
    assert table.count("<tr>") == 4001 and "… and 1,000 more rows" in table


LONG: dict[str, Callable[[int], str]] = {
    "spaces": lambda count: " " * count,
    "locations that begin": lambda count: "loc(" * (count // 4) + ")",
    "quotes that do not end": lambda count: '"' + '\\"' * (count // 2),
    "loops that do not end": lambda count: "scf.forall (" * (count // 12),
    "brackets in brackets": lambda count: " loc(" + "(" * count + ")",
    "pairs of brackets": lambda count: "loc(" + "((a)b" * (count // 5) + ")",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", LONG)
def test_no_line_takes_longer_than_its_length(what: str) -> None:
    """Two megabytes each: a pattern that goes back over what it has read would take hours."""
    line = LONG[what](2_000_000)
    (read,) = mlir_diff.read(f"x{line}")
    assert read.text.startswith("x")
    assert "more letters" in highlight.mlir_line(line)


def test_a_location_at_the_end_of_a_line_is_left_out() -> None:
    told = '  %0 = f.g %a {x = "loc(y)"} : f32'
    for location in ('loc("aten:1":1:0)', "loc(#loc3)", 'loc(fused["a":1:1, callsite("b" at "c")])', "loc(unknown)"):
        assert mlir_diff.without_location(f"{told} {location}") == told


@pytest.mark.test_all
@pytest.mark.timeout(600)
def test_texts_without_a_common_line_are_not_compared_line_by_line() -> None:
    before = "\n".join(f"a{number % 7}" for number in range(200_000))
    after = "\n".join(f"a{number % 5} x" for number in range(200_000))
    found = mlir_diff.compared(before, after)
    assert (found.removed, found.added) == (200_000, 200_000)
