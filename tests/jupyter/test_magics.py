"""The magics in a session of IPython: what a cell makes, and how each mistake in it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import workbench as wb
from tests.sessions import own_session
from workbench.ground.errors import MlirSyntaxError
from workbench.mlir.user_text import check_text

MLIR = """func.func @f(%a: i32) -> i32 {
  %c = arith.constant 0 : i32
  %r = arith.addi %a, %c : i32
  return %r : i32
}
"""
FRAC = """func.func @{{ kernel }}({{ signature }}) {
  affine.for %i = 0 to {{ X.shape[0] }} {
    affine.for %j = 0 to {{ X.shape[1] }} {
      %x = memref.load %X[%i, %j] : {{ X.memref }}
      %whole = math.trunc %x : {{ X.element }}
      %y = arith.subf %x, %whole : {{ X.element }}
      memref.store %y, %Y[%i, %j] : {{ Y.memref }}
    }
  }
  return
}
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with the magics, and a journey `j` in it."""
    with own_session(tmp_path_factory.mktemp("ipython")), wb.ops.scope():
        made = InteractiveShell.instance()
        made.run_line_magic("load_ext", "workbench")
        torch.manual_seed(0)
        made.push({"j": wb.trace(torch.softmax, torch.randn(64, 128), 1), "torch": torch, "wb": wb})
        yield made


class Ran:
    """The result of a cell: its value, its printed text, its outputs, and the error a person sees."""

    def __init__(self, shell: Any, cell: str) -> None:
        with capture_output() as captured:
            done = shell.run_cell(cell, store_history=True)
        self.value, self.error = done.result, done.error_in_exec or done.error_before_exec
        self.printed, self.stderr = captured.stdout, captured.stderr
        self.html = "".join(each.data.get("text/html", "") for each in captured.outputs)
        self.number = done.execution_count


def test_mlir_is_verified_printed_again_and_shown_in_colour(shell: Any):
    made = Ran(shell, f"%%mlir\n{MLIR}")
    assert made.error is None and repr(made.value).startswith("module {")
    assert '<span class="o">arith.addi</span>' in made.value.html()
    assert made.value.text == made.value.given


@pytest.mark.parametrize("pipeline", ["builtin.module(canonicalize)", "canonicalize"])
def test_a_pipeline_changes_it_and_the_variable_gets_it(shell: Any, pipeline: str):
    made = Ran(shell, f'%%mlir --pipeline "{pipeline}" --as folded\n{MLIR}')
    assert made.error is None and made.value is None
    folded = shell.user_ns["folded"]
    assert "arith.addi" in folded.given and "arith.addi" not in folded.text
    assert "what the passes changed" in folded.html()


def test_an_error_in_mlir_stands_at_the_cells_line(shell: Any):
    made = Ran(shell, "%%mlir\n\n" + MLIR.replace("%a, %c", "%a, %q"))
    assert f"In[{made.number}]:5: use of undeclared SSA value name" in str(made.error)
    assert "Traceback" not in made.stderr + made.printed
    assert 'class="l s"><span class="n" data-n="5"></span>' in made.html
    assert 'data-n="3"></span><span><span class="o">func.func</span>' in made.html


def test_a_pass_that_fails_is_told_with_the_cells_line(shell: Any):
    made = Ran(shell, '%%mlir --pipeline "transform-interpreter"\n' + MLIR)
    assert "the MLIR passes `transform-interpreter` failed" in str(made.error)
    assert "did you mean 'canonicalize'" in str(Ran(shell, f"%%mlir --pipeline canonical\n{MLIR}").error)


def _todays(shell: Any) -> str:
    """Text that `%schedule j k0` puts into the next cell."""
    made = Ran(shell, "%schedule j k0")
    assert made.error is None and made.value is None
    return str(shell.rl_next_input)


@pytest.mark.test_all
def test_the_script_comes_into_a_cell_and_the_cell_schedules_with_it(shell: Any):
    j, cell = shell.user_ns["j"], _todays(shell)
    assert cell == f"%%schedule j k0_softmax\n{j.scheduled.kernels[0].schedule}\n"
    made = Ran(shell, cell)
    assert made.error is None and made.value.simulated.cycles == j.simulated.cycles
    other = Ran(shell, cell.replace("[32, 0]", "[8, 0]").replace("k0_softmax", "k0 --as mine"))
    assert other.error is None and other.value is None
    mine = shell.user_ns["mine"]
    assert mine.simulated.cycles != j.simulated.cycles
    assert f"{j.simulated.cycles:,} -> {mine.simulated.cycles:,} cycles" in other.printed
    assert mine.scheduled.kernels[0].schedule == j.scheduled.kernels[0].schedule.replace("[32, 0]", "[8, 0]")


@pytest.mark.test_all
def test_an_error_in_a_script_stands_at_the_cells_line(shell: Any):
    cell = _todays(shell).replace("structured.fuse ", "structured.fusee ")
    line = next(number for number, text in enumerate(cell.splitlines(), start=1) if "fusee" in text)
    made = Ran(shell, cell)
    expected = "there is no op 'transform.structured.fusee'; did you mean 'transform.structured.fuse'?"
    assert f"In[{made.number}]:{line}: {expected}" in str(made.error)
    assert f'class="l s"><span class="n" data-n="{line}"></span>' in made.html


@pytest.mark.test_all
def test_a_cell_is_an_operators_template_once_its_kernel_is_right(shell: Any):
    made = Ran(shell, f"%%kernel aten::frac torch.randn(16, 24)\n{FRAC}")
    assert made.error is None and "aten.frac.default, aten.frac.out: computes as PyTorch" in made.printed
    assert list(made.value.lowered.table.route) == ["template"]
    assert wb.trace(torch.frac, torch.randn(8, 8)).check().ok
    assert f"Cell_aten_frac of __main__ at In[{made.number}]:1" in str(wb.ops.who("aten.frac.default"))
    wrong = Ran(shell, f"%%kernel aten::frac torch.randn(16, 24)\n{FRAC.replace('math.trunc', 'math.floor')}")
    assert wrong.error is None and "computes NOT as PyTorch" in wrong.printed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("arith.subf", "arith.subg"), "7: custom op 'arith.subg' is unknown"),
        (("{{ Y.memref", "{{ Z.memref"), "8 cannot be rendered: UndefinedError: 'Z' is undefined"),
        (("{{ Y.memref", "{{ %"), "8 cannot be rendered: unexpected '%'"),
        (("to {{ X.shape[0] }}", "to 7"), "writes only 168 of the 384 elements"),
    ],
)
def test_an_error_in_a_template_stands_at_the_cells_line_and_registers_nothing(
    shell: Any, change: tuple[str, str], words: str
):
    before = str(wb.ops.who("aten.frac.default"))
    made = Ran(shell, f"%%kernel aten::frac torch.randn(16, 24)\n{FRAC.replace(*change)}")
    assert words in str(made.error) and f"In[{made.number}]" in str(made.error)
    assert str(wb.ops.who("aten.frac.default")) == before


def test_without_tensors_a_template_is_registered_if_its_text_is_jinja(shell: Any):
    made = Ran(shell, f"%%kernel aten.frac.default\n{FRAC}")
    assert made.error is None and "this cell makes it in all later traces" in made.printed
    broken = Ran(shell, "%%kernel aten.frac.default\nfunc.func\n{% for %}\n")
    assert f"In[{broken.number}]:3 cannot be rendered" in str(broken.error)


@pytest.mark.test_all(but=5)
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%mlir --pipline x\nx", "no option --pipline; did you mean '--pipeline'?"),
        ("%%mlir --pipeline\nx", "--pipeline needs a value"),
        ("%%mlir what\nx", "was given what; expected %%mlir"),
        ("%%mlir --as 1x\n" + MLIR, "expected the name of a variable"),
        ('%%mlir --pipeline "x\nx', "No closing quotation"),
        ("%schedule j", "was given j; expected %%schedule JOURNEY KERNEL"),
        ("%schedule jj k0", "there is no variable jj; expected a journey, as wb.trace makes them; did you mean 'j'?"),
        ("%schedule torch k0", "torch is a module; expected a journey"),
        ("%schedule j k7", "no kernel has the name 'k7'. The kernels are k0_softmax"),
        ("%%schedule j k0\nwhat", "does not parse"),
        ("%%kernel\nx", "was given no words; expected %%kernel OPERATOR"),
        ("%%kernel aten::frak\nx", "torch.ops.aten has no op 'frak'; did you mean aten.frac?"),
        ("%%kernel aten::frac torch.rand(\nx", "a quote or bracket is not closed"),
        ("%%kernel aten::frac nothing\nx", "'nothing' raised NameError: name 'nothing' is not defined"),
        ("%%kernel aten::frac --kind tiled\nx", "kind='tiled' of the template of aten.frac.default"),
        ("%%kernel aten::frac 3\n" + FRAC, "aten::frac does not take these arguments: "),
        ("%%kernel aten::frac torch.rand(4) torch.rand(4)\n" + FRAC, "at most 1 argument(s) but received 2"),
        ("%%kernel aten::add torch.rand(4)\n" + FRAC, "missing value for argument 'other'"),
        ("%%mlir --as lambda\n" + MLIR, "--as lambda: expected the name of a variable"),
        (
            "%%kernel aten::frac --like torch.Tensor\nx",
            "expected a subclass of workbench.scheduling.kernels.template.Template",
        ),
    ],
)
def test_every_mistake_has_its_message_and_no_traceback(shell: Any, cell: str, words: str):
    made = Ran(shell, cell)
    assert type(made.error).__name__ == "UsageError" and words in str(made.error)
    assert "Traceback" not in made.stderr + made.printed


def test_a_name_that_cannot_be_had_is_said_before_anything_is_done(shell: Any):
    with wb.ops.scope():
        before = str(wb.ops.who("aten.frac.default"))
        made = Ran(shell, f"%%kernel aten::frac torch.randn(16, 24) --as 2nd\n{FRAC}")
        assert "--as 2nd: expected the name of a variable" in str(made.error) and not made.printed
        assert str(wb.ops.who("aten.frac.default")) == before


def test_a_kernel_of_a_template_takes_no_script(shell: Any):
    with wb.ops.scope():
        Ran(shell, f"%%kernel aten::frac torch.randn(16, 24) --as t\n{FRAC}")
    assert "a template's kernel" in str(Ran(shell, "%schedule t k0").error)


@pytest.mark.test_all
def test_tab_offers_journeys_kernels_operators_and_options(shell: Any):
    def offered(line: str) -> list[str]:
        with provisionalcompleter():
            return [each.text for each in shell.Completer.completions(line, len(line))]

    assert "j" in offered("%%schedule ") and "j" in offered("%schedule ")
    assert "k0_softmax" in offered("%%schedule j ") and offered("%%schedule j k0_s") == ["k0_softmax"]
    assert "aten.frac" in offered("%%kernel aten.fra") and "frac" in offered("%%kernel aten::fra")
    assert "--pipeline" in offered("%%mlir --pi") and "--like" in offered("%%kernel aten.frac --l")


def test_magics_say_how_they_are_used(shell: Any):
    for name in ("mlir", "schedule", "kernel"):
        assert f"%%{name} " in shell.find_magic(name, "cell").__doc__


def test_they_can_be_taken_away_again(shell: Any):
    shell.run_line_magic("unload_ext", "workbench")
    assert "%%mlir` not found" in str(Ran(shell, f"%%mlir\n{MLIR}").error)
    shell.run_line_magic("load_ext", "workbench")
    assert Ran(shell, f"%%mlir\n{MLIR}").error is None


def test_a_cell_that_the_parser_cannot_be_given_is_refused(shell: Any):
    for cell, words in (
        ("module {\n" * 5000, "more than 200 brackets are open here"),
        (f"{MLIR}// \ud800\n", "half of a character"),
    ):
        with capture_output(), pytest.raises(UsageError, match=words):
            shell.run_cell_magic("mlir", "", cell)
    assert Ran(shell, '%%mlir\n// "((((\nmodule attributes {x.a = "' + "{" * 900 + '"} {}').error is None


def test_a_long_cell_is_parsed_in_a_worker_first(shell: Any):
    ran = Ran(shell, f"%%mlir\n#m = affine_map<(d0) -> ({'-' * 200_000}d0)>")
    assert isinstance(ran.error, UsageError) and "ended by a segmentation fault" in str(ran.error)


def test_scripts_and_templates_with_half_a_character_are_refused(shell: Any):
    with capture_output(), pytest.raises(UsageError, match="half of a character"):  # not run: IPython's history fails
        shell.run_cell_magic("schedule", "j k0", "// \ud800\n")
    with pytest.raises(UsageError, match="half of a character"):
        shell.run_cell_magic("kernel", "aten::frac", f"{FRAC}// \ud800\n")
    ran = Ran(shell, "%%kernel aten::frac torch.randn(4, 4)\n{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}\n")
    assert "nested too deeply" in str(ran.error)
    ran = Ran(shell, "%%kernel aten::frac torch.randn(4, 4)\n{{ 'module {' * 5000 }}\n")
    assert "more than 200 brackets" in str(ran.error)


def test_a_null_character_is_no_empty_module():
    with pytest.raises(MlirSyntaxError, match="a null character"):
        check_text("module {\n}\n\0 func.func", "the cell")
