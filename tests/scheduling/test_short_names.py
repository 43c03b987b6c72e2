"""Kernels by their numbers, and scripts that match ops by numbers that none has."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from tests.fresh_process import python
from workbench.ground import errors

X = torch.randn(64, 64)


def softmax(**asked: object) -> wb.Journey:
    return wb.trace(torch.softmax, X, 1, machine="edge-8x8", **asked)


@pytest.mark.test_all
def test_a_kernel_goes_by_its_number_in_mappings_and_scripts():
    asked = {"tile": {"d0": 16, "d1": 64}}
    short, whole = softmax(mapping={"k0": asked}), softmax(mapping={"k0_softmax": asked})
    assert (
        short.scheduled.mappings == whole.scheduled.mappings
        and short.scheduled.mappings["k0_softmax"]["tile"]["d0"] == 16
    )
    script = whole.scheduled.kernels[0].schedule
    assert softmax().with_(schedule={"k0": script}).simulated.cycles == whole.simulated.cycles
    with pytest.raises(errors.MappingError, match="no kernel has that name"):
        softmax(mapping={"k9": asked})


def test_what_is_said_last_of_a_kernel_counts():
    chosen = softmax().scheduled.mappings
    journey = softmax(mapping=chosen | {"k0": {"tile": {"d0": 16, "d1": 64}}})
    assert journey.scheduled.mappings["k0_softmax"]["tile"]["d0"] == 16


@pytest.mark.test_all(but=1)
@pytest.mark.parametrize(
    ("written", "line", "told"),
    [
        ("attributes {npu.id = 77 : i64}", 2, "77"),
        ("attributes {npu.id\n = 77}", 2, "77"),
        ('attributes {"npu.id" = 77}', 2, "77"),
        ("attributes {npu.id = 0x77}", 2, "119"),
        ("attributes {npu.id = -5}", 2, "-5"),
        ("attributes {  // which one\n npu.id = 77}", 2, "77"),
        ("attributes {npu.id = 5 : i32}", 2, "5 : i32"),
    ],
)
def test_a_number_is_known_however_it_is_written(written: str, line: int, told: str):
    script = softmax().scheduled.kernels[0].schedule
    wrong = script.replace("attributes {npu.id = 5 : i64}", written, 1)
    assert wrong != script
    with pytest.raises(
        errors.ScheduleScriptError, match=f"line {line}: no op has npu.id = {told}; there are 0, 1, 2, 3, 4, 5"
    ):
        _ = softmax().with_(schedule={"k0": wrong}).scheduled


@pytest.mark.test_all
def test_what_only_looks_like_a_match_is_none():
    journey = softmax()
    script = journey.scheduled.kernels[0].schedule
    first = next(line for line in script.splitlines() if "npu.id = 5" in line)
    handle = first.split("=")[0].strip()
    noted = script.replace(first, f'{first}\n  transform.annotate {handle} "npu.id = 99" : !transform.any_op', 1)
    assert journey.with_(schedule={"k0": noted}).simulated.cycles == journey.simulated.cycles
    more = f'{first}\n  transform.annotate {handle} "ops{{[no.op]}}" : !transform.any_op // npu.id = 99'
    quoted = script.replace(first, more, 1)
    assert journey.with_(schedule={"k0": quoted}).simulated.cycles == journey.simulated.cycles


def test_a_script_that_the_parser_cannot_be_given_is_refused():
    for text, words in (
        ("// fine\n// \ud800", "line 2: .*half of a character"),
        ("module {\n" * 5000, "line 201: more than 200 brackets"),
    ):
        with pytest.raises(errors.ScheduleScriptError, match=words) as told:
            _ = softmax().with_(schedule={"k0": text}).scheduled
        str(told.value).encode()


@pytest.mark.test_all
def test_a_script_that_matches_ops_by_a_name_that_none_has_is_refused():
    script = """\
transform.named_sequence @__transform_main(%root: !transform.any_op) {
  %op = transform.structured.match ops{["linalg.matmull"]} in %root : (!transform.any_op) -> !transform.any_op
  %tiled, %loop = transform.structured.tile_using_for %op tile_sizes [16]
    : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
  transform.yield
}"""
    product = wb.trace(torch.matmul, X, X, machine="edge-8x8")
    with pytest.raises(errors.ScheduleScriptError, match=r"line 2: no op is linalg\.matmull; did you mean") as told:
        _ = product.with_(schedule={"k0": script}).simulated
    assert "changes nothing" in str(told.value)
    for two_lines in ('["linalg.foo",\n "linalg.bar"]', '["linalg.foo",  // }]\n "linalg.bar"]'):
        with pytest.raises(errors.ScheduleScriptError, match=r"line 2: no op is linalg\.foo or linalg\.bar"):
            _ = product.with_(schedule={"k0": script.replace('["linalg.matmull"]', two_lines)}).simulated
    body = """\
transform.named_sequence @__transform_main(%root: !transform.any_op) {
  %op = transform.structured.match ops{["arith.maximumf"]} in %root : (!transform.any_op) -> !transform.any_op
  transform.yield
}"""
    with pytest.raises(errors.ScheduleScriptError, match=r"arith\.maximumf is in the body of a structured op.*linalg"):
        _ = softmax().with_(schedule={"k0": body}).simulated
    with pytest.raises(errors.ScheduleScriptError, match=r"line 2: no op is linalg\.conv_2d.*; there are .*linalg"):
        _ = product.with_(schedule={"k0": script.replace("linalg.matmull", "linalg.conv_2d")}).simulated


@pytest.mark.test_all
@pytest.mark.parametrize(
    "match",
    ["attributes{npu.idd = 3 : i64}", "interface{LoopLikeInterface}", 'ops{["linalg.matmul"]} attributes{a = ")"}'],
)
def test_a_script_that_matches_nothing_by_whatever_it_matches_is_refused(match: str):
    def script(match: str) -> str:
        return (
            "transform.named_sequence @__transform_main(%root: !transform.any_op) {\n"
            f"  %op = transform.structured.match {match} in %root : (!transform.any_op) -> !transform.any_op\n"
            "  transform.yield\n}"
        )

    product = wb.trace(torch.matmul, X, X, machine="edge-8x8")
    with pytest.raises(
        errors.ScheduleScriptError, match=r"line 2: no op is matched; there are .*linalg\.matmul"
    ) as told:
        _ = product.with_(schedule={"k0": script(match)}).scheduled
    assert "matches nothing in the kernel, and changes nothing" in str(told.value)
    for found in ("interface{LinalgOp}", 'ops{["linalg.matmul"]}'):
        assert product.with_(schedule={"k0": script(found)}).scheduled


def test_python_runs_the_command():
    assert "edge-8x8" in python("-m", "workbench", "machines")


@pytest.mark.test_all
def test_an_op_that_is_there_and_written_wrongly_is_not_called_missing():
    j = softmax()
    script = j.scheduled.kernels[0].schedule
    assert "in %root" in script and "tile_sizes [" in script
    for broken in (script.replace("in %root", "of %root"), script.replace("tile_sizes [", "tile_sizes {", 1)):
        with pytest.raises(wb.WorkbenchError, match="does not parse") as told:
            _ = j.with_(schedule={"k0": broken}).scheduled
        assert "there is no op" not in str(told.value)
