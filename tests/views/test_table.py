"""Tables read well as text and become honest DataFrames."""

from __future__ import annotations

from workbench.ground.basics.data_frames import frame
from workbench.ground.basics.table import Table

TABLE = Table(
    ("name", "shape", "bytes", "share", "line"),
    (("softmax", (512, 77), 1048576, 0.25, 12), ("add", (), 4, 0.5, None)),
)


def test_text_is_aligned_with_numbers_to_the_right():
    assert TABLE.text().splitlines() == [
        "name     shape        bytes  share  line",
        "softmax  512, 77  1,048,576   0.25  12",
        "add                       4    0.5",
    ]


def test_long_cells_are_cut_and_say_so():
    assert Table(("a",), (("x" * 50,),)).text(widest=10).splitlines()[1] == "x" * 9 + "…"


def test_frames_keep_tuples_and_number_types():
    made = frame(TABLE)
    assert list(made.columns) == list(TABLE.columns)
    assert made["bytes"].dtype == "int64" and made["share"].dtype == "float64"
    assert made["shape"][0] == (512, 77)
    assert made["line"][1] is None


def test_an_empty_table_keeps_its_columns():
    assert list(frame(Table(("a", "b"), ())).columns) == ["a", "b"]


def test_html_escapes():
    assert "<td>a &lt; b</td>" in Table(("c",), (("a < b",),)).html()
