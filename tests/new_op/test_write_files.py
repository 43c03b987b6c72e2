"""`workbench new-op`: what it writes fails until the marked lines are filled, and passes then."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import workbench as wb
import workbench.journey
from workbench.commands import cli
from workbench.ground.errors import BadOption, FileInTheWay, MissingRoutes, OpHasRoute, UnknownOverload
from workbench.operators.new_op.operator_facts import facts_of
from workbench.operators.new_op.skeleton import stub
from workbench.operators.new_op.write_files import new_op

ROOT = Path(__file__).resolve().parents[2]

HARDSWISH = """
        %three = arith.constant 3.0 : f32
        %six = arith.constant 6.0 : f32
        %nothing = arith.constant 0.0 : f32
        %moved = arith.addf %x_value, %three : f32
        %above = arith.maximumf %moved, %nothing : f32
        %gate = arith.minimumf %above, %six : f32
        %whole = arith.mulf %x_value, %gate : f32
        %out_value = arith.divf %whole, %six : f32
"""
THRESHOLD = """
        limit, value = op.number(op["threshold"], like=x), op.number(op["value"], like=x)
        return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, x, limit), x, value)
"""
GATE = """
        %alpha = arith.constant {{ '%e' | format(attributes.alpha) }} : f32
        %opened = arith.addf %gate_value, %alpha : f32
        %out_value = arith.mulf %x_value, %opened : f32
"""
FLIP = """
    %last = arith.constant {{ x.shape[attributes.dims[0]] - 1 }} : index
    %mirrored = arith.subi %last, %d{{ attributes.dims[0] }} : index
    %value = memref.load %x[%d0, %mirrored] : {{ x.memref }}
"""


def fill(path: Path, marker: str, body: str) -> None:
    """Writes `body` below the line that says what to fill in, and takes away the line that stands for it."""
    text = path.read_text(encoding="utf-8")
    marked = next(line for line in text.splitlines() if re.search(r"(#|//) fill in", line) and marker in line)
    text = text.replace(marked + "\n", marked + body, 1)
    after = text.index(body) + len(body)
    path.write_text(text[:after] + re.sub(r"\A\s*raise NotImplementedError\n", "", text[after:]), encoding="utf-8")


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=400,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new_ops")
    for arguments in (
        ["aten::hardswish"],
        ["aten::threshold", "--builder"],
        ["aten::flip", "--force"],
        ["fresh::gated", "--schema", "(Tensor x, Tensor gate, *, float alpha=0.25) -> Tensor"],
    ):
        assert cli.main(["new-op", *arguments, "--out", str(folder)]) == cli.OK
    return folder


def test_the_files_are_there_and_read_as_python_and_json(written: Path):
    names = {path.name for path in written.iterdir()}
    for stem in ("aten_hardswish", "aten_threshold", "aten_flip", "fresh_gated"):
        assert {f"{stem}.py", f"test_{stem}.py", f"{stem}.ipynb"} <= names
        assert (f"{stem}.mlir.j2" in names) == (stem != "aten_threshold")
        cells = json.loads((written / f"{stem}.ipynb").read_text())["cells"]
        for source in ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]:
            compile(source, stem, "exec")
    assert "aten::threshold(Tensor self, Scalar threshold, Scalar value)" in (written / "aten_threshold.py").read_text()


@pytest.mark.test_all
def test_generated_tests_fail_at_first_and_pass_once_the_lines_are_filled(written: Path):
    before = run_tests(written)
    assert before.returncode == 1
    assert "passed" not in before.stdout.splitlines()[-1]
    assert "torch.__trace" not in before.stdout, "PyTorch's own trace would drown the errors"
    assert re.search(r"is not complete yet: \S+aten_threshold.py:\d+ raises NotImplementedError", before.stdout)
    marked = (written / "aten_hardswish.mlir.j2").read_text().split("// fill in")[0].count("\n") + 3
    assert f"aten_hardswish.mlir.j2:{marked}" in before.stdout, "the error stands at the line below the mark"
    fill(written / "aten_hardswish.mlir.j2", "%out_value", HARDSWISH)
    fill(written / "aten_threshold.py", "one number", THRESHOLD)
    fill(written / "aten_flip.mlir.j2", "%value", FLIP)
    fill(written / "fresh_gated.mlir.j2", "%out_value", GATE)
    fill(written / "fresh_gated.py", "plain PyTorch", "\n    return x * (gate + alpha)\n")
    after = run_tests(written)
    assert after.returncode == 0, after.stdout[-4000:]
    assert after.stdout.splitlines()[-1].startswith("29 passed")


@pytest.mark.test_all
def test_wrong_lines_fail_the_generated_test(tmp_path: Path):
    new_op("aten::hardswish", folder=tmp_path)
    fill(tmp_path / "aten_hardswish.mlir.j2", "%out_value", HARDSWISH.replace("3.0", "2.5"))
    done = run_tests(tmp_path)
    assert done.returncode == 1 and "6 failed, 3 passed" in done.stdout


def test_nothing_is_overwritten(tmp_path: Path):
    (tmp_path / "test_aten_hardswish.py").write_text("mine")
    with pytest.raises(FileInTheWay, match=r"test_aten_hardswish\.py exists already"):
        new_op("aten::hardswish", folder=tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["test_aten_hardswish.py"]


def test_an_op_may_have_both_kernels_in_one_folder(tmp_path: Path):
    for name, first, second in (("aten::hardswish", "template", "builder"), ("fresh::both", "builder", "template")):
        stem = name.replace("::", "_")
        for way, called in ((first, stem), (second, f"{stem}_{second}")):
            names = {path.name for path in new_op(name, way=way, folder=tmp_path).paths}
            assert {f"{called}.py", f"test_{called}.py", f"{called}.ipynb"} <= names
        with pytest.raises(FileInTheWay):
            new_op(name, way=second, folder=tmp_path)
    text = (tmp_path / "fresh_both_template.py").read_text()
    assert "import fresh_both  #" in text and "custom_op" not in text  # defined once
    compile(text, "template", "exec")


@pytest.mark.parametrize(
    ("name", "schema", "error", "words"),
    [
        ("aten::hardswihs", None, UnknownOverload, "did you mean aten.hardswish"),
        ("atn::hardswish", None, UnknownOverload, "did you mean aten::hardswish"),
        ("hardswish", None, UnknownOverload, "expected namespace::op"),
        ("aten::relu_", None, BadOption, "in place"),
        ("aten::relu", "(Tensor x) -> Tensor", BadOption, "leave --schema out"),
        ("fresh::thing", "Tensor to Tensor", BadOption, "PyTorch's notation"),
    ],
)
def test_mistakes_are_named(name: str, schema: str | None, error: type[Exception], words: str, tmp_path: Path):
    with pytest.raises(error, match=words):
        new_op(name, folder=tmp_path / "none", schema=schema)
    assert not (tmp_path / "none").exists()


def test_who_has_the_op_is_told_and_a_registered_kernel_is_not_replaced_unasked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert cli.main(["new-op", "aten::hardswish", "--out", str(tmp_path)]) == cli.OK
    assert "automatic, torch-mlir imports it" in capsys.readouterr().out
    assert cli.main(["new-op", "aten::hypot", "--builder", "--out", str(tmp_path)]) == cli.USER_ERROR
    assert "registered in math by hypot of templates.special" in capsys.readouterr().err
    with pytest.raises(OpHasRoute):
        new_op("aten::hypot", folder=tmp_path)
    made = new_op("aten::hypot", way="builder", folder=tmp_path, force=True)
    assert 'wb.ops.drop("aten.hypot.default", "builder")  # hypot of templates.special' in made.paths[0].read_text()


def test_the_error_about_missing_routes_shows_the_same_lines(tmp_path: Path):
    with pytest.raises(MissingRoutes) as caught:
        _ = wb.trace(lambda x: torch.ops.aten.renorm(x, 2, 0, 1), torch.randn(3, 4), on_missing="error").lowered
    shown = stub(facts_of("aten.renorm.default"))
    assert "\n".join(f"    {line}".rstrip() for line in shown.splitlines()) in str(caught.value)
    made = new_op("aten::renorm", way="builder", folder=tmp_path).paths[0].read_text()
    body = shown[shown.index("# fill in") : shown.index("raise")]
    assert body in made and 'builder(*OVERLOADS, dialect="math", kind="opaque")(renorm)' in made


def test_numbers_in_a_schema_are_printed_as_they_were_written(tmp_path: Path):
    schema = "(Tensor x, float a=0.1, float b=-0.3, float[2] c=[0.7, 2.5], float d=1e-05) -> Tensor"
    text = new_op("fresh::scaled", folder=tmp_path, schema=schema).paths[0].read_text()
    assert "a=0.1, float b=-0.3, float[2] c=[0.7, 2.5], float d=1e-05) -> Tensor" in text
    assert "0000000" not in text and "9999999" not in text


def test_facts_come_from_calling_the_op():
    def elementwise(name: str) -> bool:
        return facts_of(name).elementwise

    assert [elementwise(f"aten::{op}") for op in ("gelu", "hypot", "_foobar", "bitwise_and", "isnan")] == [True] * 5
    assert [elementwise(f"aten::{op}") for op in ("softmax", "cumsum", "mm", "flip", "cat", "bernoulli")] == [False] * 6
    assert facts_of("aten::mm").sample.results == ((16, 16),)  # type: ignore[union-attr]
    add = facts_of("aten::add")
    assert add.overloads == ("aten.add.Tensor",) and add.others == ("aten.add.Scalar",)
    assert facts_of("aten::isnan").sample.result_dtype == "bool"  # type: ignore[union-attr]
