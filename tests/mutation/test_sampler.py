"""Mistakes made in sources are valid Python that means something else, in code alone; and what a whole run wrote."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutation import running
from tests.mutation.__main__ import GROUPS, sample
from tests.mutation.mutate import mutants
from tests.mutation.reaching import ROOT
from tests.mutation.running import Copy, chosen

SOURCE = '''"""Not 1 word of this."""
LIMIT: Final[1] = 3
Kind = Literal[1, 2]

class Box:
    def __repr__(self):
        return "a" + str(1)

    def area(self, sides: tuple[int, ...] = (1,)) -> Literal[1]:
        """Nor 1 of this."""
        if not sides or self.empty:
            raise ValueError(f"{len(sides) + 1} sides" + str(1 - 2))
        self.tell(True)
        total = 0
        for side in sides:
            total += side * 2
        return max(total, 0) if total < 5 else None
'''


def test_every_mistake_is_made_once_and_in_code_alone():
    made = {(each.line, each.rule, each.after) for each in mutants("box.py", SOURCE)}
    assert made == {
        (2, "constant", "LIMIT: Final[1] = 4"),
        (9, "constant", "def area(self, sides: tuple[int, ...] = (2,)) -> Literal[1]:"),
        (11, "and, or", "if (not sides and self.empty):"),
        (11, "condition negated", "if (not (not sides or self.empty)):"),
        (11, "not left out", "if (sides) or self.empty:"),
        (13, "call left out", "pass"),
        (13, "constant", "self.tell(False)"),
        (14, "constant", "total = 1"),
        (16, "operator", "total -= side * 2"),
        (16, "operator", "total += (side // 2)"),
        (16, "constant", "total += side * 3"),
        (17, "returns None", "return None"),
        (17, "min, max, any, all", "return (min(total, 0)) if total < 5 else None"),
        (17, "constant", "return max(total, 1) if total < 5 else None"),
        (17, "comparison", "return max(total, 0) if (total <= 5) else None"),
        (17, "condition negated", "return max(total, 0) if (not total < 5) else None"),
        (17, "constant", "return max(total, 0) if total < 6 else None"),
    }
    assert {each.function for each in mutants("box.py", SOURCE)} == {"", "Box.area", "Box"}


@pytest.mark.test_all(but=1)
@pytest.mark.sweep(one_in=2)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_mistake_is_valid_python_that_means_something_else(group):
    drawn = sample(group, 40, seed=5)
    assert len({(each.path, each.line) for each in drawn}) == 40
    assert drawn == sample(group, 40, seed=5) != sample(group, 40, seed=6)
    for each in drawn:
        right = (ROOT / each.path).read_text()
        compile(each.text, each.path, "exec")
        assert ast.dump(ast.parse(each.text)) != ast.dump(ast.parse(right)), each
        before, after = right.splitlines(), each.text.splitlines()
        statement = next(node for node in ast.walk(ast.parse(right)) if getattr(node, "lineno", 0) == each.line)
        below = len(before) - (statement.end_lineno or each.line)
        assert before[: each.line - 1] == after[: each.line - 1]
        assert before[len(before) - below :] == after[len(after) - below :]


@pytest.mark.test_all
def test_a_mistake_is_noticed_in_a_copy_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree = tmp_path / "given"
    (tree / "tests").mkdir(parents=True)
    (tree / "sum.py").write_text("def add(a, b):\n    return a + b\n\n\ndef seen():\n    return 1 > 0\n")
    (tree / "tests" / "test_sum.py").write_text(
        "import sum\n\n\ndef test_add():\n    assert sum.add(1, 2) == 3\n\n\n"
        "def test_seen():\n    assert sum.seen()\n\n\ndef test_wrong():\n    assert False\n"
    )
    monkeypatch.setattr(running, "ROOT", tree)
    right = (tree / "sum.py").read_text()
    copied = Copy(tmp_path / "made", plain=True)
    names = ["test_add", "test_seen", "test_wrong"]
    called = ["sum.py:add", "sum.py:seen", "sum.py:seen"]
    reached = {f"tests/test_sum.py::{each}": (1.0, [name]) for each, name in zip(names, called, strict=True)}
    made = {each.after: each for each in mutants("sum.py", right)}
    assert copied.run(made["return (a - b)"], reached, [1.0]).killed_by == "tests/test_sum.py::test_add"
    assert not copied.run(made["return (1 >= 0)"], reached, [1.0, 9.0]).killed  # the test that fails does so anyway
    assert (tree / "sum.py").read_text() == (copied.folder / "sum.py").read_text() == right


def test_the_quickest_tests_of_each_file_come_first_and_those_of_what_a_function_stands_in():
    deep, top = (mutants("s.py", text)[0] for text in ("def f():\n    def g():\n        return 1\n", "A = 1\n"))
    times = {"a::one": 1.0, "a::two": 2.0, "b::one": 4.0, "b::two": 30.0}
    reached = {test: (taken, ["s.py:f"]) for test, taken in times.items()}
    assert chosen(deep, reached) == (["a::one", "b::one", "a::two"], 7.0)
    assert chosen(deep, {"c::one": (9.0, ["s.py:f.<locals>.g"]), **reached}) == (["c::one"], 9.0)
    assert chosen(top, {"c::one": (0.1, ["t.py:f"]), **reached}) == (["a::one", "b::one", "a::two"], 7.0)
    assert chosen(top, {"c::one": (0.1, ["t.py:f"])}) == ([], 0.0)
    alike = {f"a::one[{number}]": (1.0, ["s.py:f"]) for number in range(5)}
    assert chosen(top, alike) == (["a::one[0]", "a::one[1]"], 2.0)
