"""Templates: what they may say, and an error at their own line for each thing they can get wrong."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch_mlir import ir

import workbench as wb
from simulator.machine.machine import Machine
from simulator.machine.machine_file import load_machine
from simulator.tileprogram.program import Opcode, Space
from templates.foobar import FoobarTiled, register_fake
from workbench.ground.errors import (
    DataDecides,
    NotAffine,
    TemplateBoundsError,
    TemplateMlirError,
    TemplateOutputError,
    TemplateOutputMissing,
    TemplateSignatureError,
    TemplateSyntaxError,
)
from workbench.ir import KernelModule, Literal, Mapping, Node, Origin, Ref, TensorType, Written
from workbench.running.jit import compile_scheduled
from workbench.scheduling.kernels.handwritten import check_written
from workbench.scheduling.kernels.template import Template, Tile, instantiate

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The line of this file that says `text` (the last one, which is not this call's)."""
    lines = HERE.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def made(template: type[Template], *shape: int, node: Node | None = None) -> Template:
    strides = tuple(int(step) for step in torch.empty(shape).stride())
    kind = TensorType(shape, "f32", strides)
    given = node or Node("op", "aten._foobar.default", (Ref("x"),), {}, ("op",), Origin("op", "aten._foobar.default"))
    return instantiate(template, given, (kind,), (kind,), "kernel")


def written(template: type[Template], *shape: int, machine: str = "tpu-v3", mapping: Mapping | None = None):
    target = load_machine(machine)
    one = made(template, *shape)
    chosen = mapping or one.mapping(target)
    rendering = one.rendered(chosen, target)
    of = Written(template.__name__, 0, target.label, {}, "", chosen, one.dims())
    arguments = tuple(tensor.type for tensor in (*one.inputs, *one.outputs))
    record = KernelModule(one.kernel, rendering.text, rendering.located, arguments, (one.node.name,), (), True, (), of)
    return rendering, check_written(one, rendering, record, target)


def run(text: str, x: torch.Tensor) -> torch.Tensor:
    out = torch.full_like(x, float("nan"))
    compile_scheduled(text, "kernel")([x, out])
    return out


class Negate(Template):
    """Through the scratchpad, whole."""

    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  {{ T.alloc('%tile') }}
  linalg.copy ins(%X : {{ X.memref }}) outs(%tile : {{ T.memref }})
  linalg.elementwise kind=#linalg.elementwise_kind<negf> ins(%tile : {{ T.memref }}) outs(%tile : {{ T.memref }})
  linalg.copy ins(%tile : {{ T.memref }}) outs(%Y : {{ Y.memref }})
  {{ T.dealloc('%tile') }}
  return
}
"""

    def tiles(self, mapping: Mapping) -> dict[str, Tile]:
        return {"T": Tile(self.outputs[0].shape, "f32")}


class BoundedLoop(Template):
    """A loop over tiles of lanes with a branch for the ragged end, on a flat view of DRAM."""

    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  %zero = arith.constant 0 : index
  %elements = arith.constant {{ X.shape[0] }} : index
  %lanes = arith.constant {{ lanes }} : index
  affine.for %start = 0 to {{ X.shape[0] }} step {{ lanes }} {
    affine.for %lane = 0 to {{ lanes }} {
      %at = arith.addi %start, %lane : index
      %inside = arith.cmpi slt, %at, %elements : index
      scf.if %inside {
        %value = memref.load %X[%at] : {{ X.memref }}
        %twice = arith.addf %value, %value : f32
        memref.store %twice, %Y[%at] : {{ Y.memref }}
      }
    }
  }
  return
}
"""


class WithBindings(Template):
    """The same as a direct copy, made with the MLIR bindings instead of text."""

    def render(self, mapping: Mapping, machine: Machine) -> ir.Module:
        with ir.Context(), ir.Location.unknown():
            return ir.Module.parse(
                f"func.func @{self.kernel}(%x: {self.inputs[0].memref}, %y: {self.outputs[0].memref}) {{"
                f" affine.for %i = 0 to {self.inputs[0].shape[0]} {{"
                f" %v = affine.apply affine_map<(d0) -> (d0)>(%i)"
                f" %e = memref.load %x[%v] : {self.inputs[0].memref}"
                f" memref.store %e, %y[%v] : {self.outputs[0].memref} }} return }}"
            )


def test_a_template_runs_as_it_is_written():
    x = torch.randn(6, 10)
    rendering, program = written(Negate, 6, 10)
    assert torch.equal(run(rendering.text, x), -x)
    assert [Opcode(code).name for code in program.opcode] == ["LOAD", "VECTOR", "STORE"]


@pytest.mark.parametrize("elements", [1, 100, 128, 300])
def test_unstaged_accesses_are_counted_exactly(elements: int):
    x = torch.randn(elements)
    rendering, program = written(BoundedLoop, elements)
    assert torch.equal(run(rendering.text, x), 2 * x)
    rows = [program.instruction(index) for index in range(len(program))]
    assert {row.opcode for row in rows} == {Opcode.DIRECT}
    for wanted in (0, 1):
        touched = [
            operand.offset + step * operand.strides[0]
            for row in rows
            for operand in row.operands
            if operand.space == Space.DRAM and operand.target == wanted
            for step in range(operand.shape[0])
        ]
        assert touched == list(range(elements))
    assert sum(program.ops[0].class_counts[:3]) == 2  # the comparison, and what stands in the branch


def test_a_template_may_use_the_bindings():
    x = torch.randn(7)
    rendering, program = written(WithBindings, 7)
    assert torch.equal(run(rendering.text, x), x) and len(program) == 1


def test_attributes_are_given_to_the_text():
    node = Node(
        "op", "aten._foobar.default", (Ref("x"), Literal("bool", True)), {"arg3": Literal("int", 5)}, ("op",),
        Origin("op", "aten._foobar.default"),
    )  # fmt: skip
    assert made(Negate, 2, node=node).attributes() == {"arg1": True, "arg3": 5}


# -- errors -----------------------------------------------------------------------------------------------------------


class NotJinja(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  {% for x in %} // here the Jinja is broken
}
"""


class UnknownName(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  {{ nobody_gave_this }}
}
"""


class NotMlir(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  {% for one in [1] %}
  %broken = arith.constant : index
  {% endfor %}
  return
}
"""


class LeavesTheForm(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  linalg.copy ins(%X : {{ X.memref }}) outs(%Y : {{ Y.memref }})
  return
}
"""


class OutOfBounds(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  affine.for %i = 0 to {{ X.shape[0] + 1 }} {
    %v = memref.load %X[%i] : {{ X.memref }}
    memref.store %v, %Y[%i] : {{ Y.memref }}
  }
  return
}
"""


class ForgetsHalf(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  affine.for %i = 0 to {{ X.shape[0] // 2 }} {
    %v = memref.load %X[%i] : {{ X.memref }}
    memref.store %v, %Y[%i] : {{ Y.memref }}
  }
  return
}
"""


class ForgetsAll(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  return
}
"""


class WrongType(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}(%X: memref<4x4xf32>, %Y: memref<16xi32>) {
  return
}
"""


class DataDecidesTheEnd(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %first = memref.load %X[%zero] : {{ X.memref }}
  %whole = arith.fptosi %first : f32 to i64
  %end = arith.index_cast %whole : i64 to index
  scf.for %i = %zero to %end step %one {
    %v = memref.load %X[%i] : {{ X.memref }}
    memref.store %v, %Y[%i] : {{ Y.memref }}
  }
  return
}
"""


class Quadratic(Template):
    source: ClassVar[str] = """
func.func @{{ kernel }}({{ signature }}) {
  affine.for %i = 0 to 4 {
    %square = arith.muli %i, %i : index
    %v = memref.load %X[%square] : {{ X.memref }}
    memref.store %v, %Y[%i] : {{ Y.memref }}
  }
  return
}
"""


class GivesANumber(Template):
    def render(self, mapping: Mapping, machine: Machine) -> str:
        return 7  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("template", "error", "here", "words"),
    [
        (NotJinja, TemplateSyntaxError, "here the Jinja is broken", "Expected an expression"),
        (UnknownName, TemplateSyntaxError, "{{ nobody_gave_this }}", "'nobody_gave_this' is undefined"),
        (NotMlir, TemplateMlirError, "%broken = arith.constant", "not render valid MLIR"),
        (
            LeavesTheForm,
            TemplateMlirError,
            "linalg.copy ins(%X : {{ X.memref }}) outs(%Y",
            "uses what a scheduled kernel may not have",
        ),
    ],
)
def test_errors_stand_at_the_templates_own_line(template, error, here: str, words: str):
    with pytest.raises(error) as caught:
        written(template, 16)
    assert f"{HERE}:{line_of(here)}" in str(caught.value)
    assert words in str(caught.value) and template.__name__ in str(caught.value)


class IsANumber(Negate):
    source = 5  # type: ignore[assignment]


class IsEmpty(Negate):
    source: ClassVar[str] = ""


@pytest.mark.parametrize(
    ("template", "error", "words"),
    [
        (OutOfBounds, TemplateBoundsError, "reaches bytes 0 to 68 of %X, which has 64"),
        (ForgetsHalf, TemplateOutputMissing, "writes only 8 of the 16 elements of its output %Y"),
        (ForgetsAll, TemplateOutputMissing, "never writes its output %Y"),
        (WrongType, TemplateSignatureError, "memref<16xf32, strided<[1]>>"),
        (DataDecidesTheEnd, DataDecides, "depends on the result of arith.index_cast"),
        (Quadratic, NotAffine, "in one iteration and the next is not constant"),
        (GivesANumber, TemplateOutputError, "render() gave int"),
        (IsANumber, TemplateOutputError, "source is int; expected text"),
        (IsEmpty, TemplateOutputError, "source is empty; expected the text of its MLIR"),
    ],
)
def test_each_mistake_has_its_own_error(template, error, words: str):
    with pytest.raises(error) as caught:
        written(template, 16)
    assert words in str(caught.value)


class PutTogether(Negate):
    source: ClassVar[str] = NotMlir.source.replace("%broken", "%put_together")


def test_a_text_that_is_put_together_is_told_by_its_own_lines():
    with pytest.raises(TemplateMlirError) as caught:
        written(PutTogether, 16)
    assert f"{HERE}, line 4 of its text: " in str(caught.value) and "%put_together" in str(caught.value)


def test_something_else_registered_as_a_template_is_named():
    with pytest.raises(TemplateOutputError, match="is registered as a template of"):
        made(lambda node, inputs, outputs: None, 4)  # type: ignore[arg-type]


def test_a_template_file_is_named_with_its_line(tmp_path: Path):
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "op.mlir.j2").write_text(
        "{# a comment\nof two lines #}\nfunc.func @{{ kernel }}({{ signature }}) {\n oops\n}\n"
    )
    (folder / "op.py").write_text(
        "from workbench.scheduling.kernels.template import Template\nclass Op(Template):\n    source = 'op.mlir.j2'\n"
        "    def dims(self):\n        return {'d0': 16}\n"
    )
    space: dict[str, object] = {"__name__": "broken_op"}
    code = compile((folder / "op.py").read_text(), str(folder / "op.py"), "exec")
    import sys
    import types

    module = types.ModuleType("broken_op")
    module.__file__ = str(folder / "op.py")
    sys.modules["broken_op"] = module
    try:
        exec(code, space | module.__dict__, module.__dict__)
        with pytest.raises(TemplateMlirError) as caught:
            written(module.Op, 16)
    finally:
        del sys.modules["broken_op"]
    assert f"{folder / 'op.mlir.j2'}:4" in str(caught.value)


@pytest.mark.test_all(but=2)
@pytest.mark.parametrize("module", ["template_of_mine", "__main__", "in_no_file"])
def test_a_subclass_in_another_file_renders_the_text_it_inherits(tmp_path: Path, module: str):
    (tmp_path / "mine.py").write_text(
        "from templates.foobar import FoobarTiled\nclass Mine(FoobarTiled):\n"
        "    def buffers(self) -> int:\n        return 2\nclass Below(Mine):\n    pass\n"
    )
    if module == "template_of_mine":
        spec = importlib.util.spec_from_file_location(module, tmp_path / "mine.py")
        assert spec is not None and spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        names = vars(made)
    else:  # as a cell of a notebook runs, which is in no file
        names = {"__name__": module}
        exec((tmp_path / "mine.py").read_text(), names)
    texts = [_foobar(form).text() for form in (names["Mine"], names["Below"], FoobarTiled)]
    assert texts[0] == texts[1] == texts[2] != ""
    register_fake()
    with wb.ops.scope():
        wb.ops.template("aten._foobar.default")(names["Below"])
        j = wb.trace(lambda x: torch.ops.aten._foobar(x), torch.randn(20, 10), machine="edge-8x8")
        assert list(j.lowered.table.route) == ["template"] and j.check().ok
        assert j.scheduled.record.kernels[0].mapping.buffers == 2


def test_a_subclass_with_a_text_of_its_own_reads_it_beside_itself(tmp_path: Path):
    (tmp_path / "own.mlir.j2").write_text("the text of its own")
    (tmp_path / "own.py").write_text(
        "from templates.foobar import FoobarTiled\nclass Own(FoobarTiled):\n    source = 'own.mlir.j2'\n"
    )
    spec = importlib.util.spec_from_file_location("own_template", tmp_path / "own.py")
    assert spec is not None and spec.loader is not None
    sys.modules["own_template"] = made = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
        assert _foobar(made.Own).text() == "the text of its own"
        assert _foobar(type("Other", (made.Own,), {})).text() == "the text of its own"
    finally:
        del sys.modules["own_template"]


def _foobar(form: type[Template]) -> Template:
    kind = TensorType.dense((4,), "f32")
    node = Node(
        "foobar", "aten._foobar.default", (Ref("x"),), {}, ("foobar",), Origin("foobar", "aten._foobar.default")
    )
    return instantiate(form, node, (kind,), (kind,), "k0_foobar")
