"""The layout of graphs: what prepares an operand stands near its reader."""

from __future__ import annotations

from itertools import pairwise

from workbench.explaining.views.graphs.layered_layout import layered


def test_what_only_prepares_operands_stands_just_above_its_reader():
    """As the factors and summands of batch norms do: of twenty in a row at the top the picture would be as wide."""
    count = 20
    main = [f"conv{number}" for number in range(count)]
    edges = list(pairwise(["x", *main]))
    names = ["x", *main]
    for number in range(count):
        names += [f"factor{number}", f"summand{number}"]
        edges += [
            (f"factor{number}", f"summand{number}"),
            (f"factor{number}", f"conv{number}"),
            (f"summand{number}", f"conv{number}"),
        ]
    made = layered(dict.fromkeys(names, (100.0, 40.0)), edges)
    step = 70.0
    for number in range(1, count):
        reader = made.boxes[f"conv{number}"].y
        assert [made.boxes[f"{what}{number}"].y for what in ("summand", "factor")] == [reader - step, reader - 2 * step]
    assert made.width < 8 * 118
