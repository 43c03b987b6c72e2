"""Kernels by their numbers, and scripts that match ops by numbers that none has."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import workbench as wb
from workbench import errors

X = torch.randn(64, 64)


def softmax(**asked: object) -> wb.Journey:
    return wb.trace(torch.softmax, X, 1, machine="edge-8x8", **asked)


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


def test_a_script_that_matches_no_op_is_refused():
    script = softmax().scheduled.kernels[0].schedule
    wrong = script.replace("npu.id = 5", "npu.id = 77", 1)
    assert wrong != script
    with pytest.raises(errors.ScheduleScriptError, match=r"line 2: no op has npu.id = 77; there are 0, 1, 2, 3, 4, 5"):
        _ = softmax().with_(schedule={"k0_softmax": wrong}).simulated


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
    with pytest.raises(errors.ScheduleScriptError, match=r"line 2: no op is linalg\.conv_2d.*; there are .*linalg"):
        _ = product.with_(schedule={"k0": script.replace("linalg.matmull", "linalg.conv_2d")}).simulated


def test_python_runs_the_command():
    ran = subprocess.run([sys.executable, "-m", "workbench", "machines"], capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and "edge-8x8" in ran.stdout


def test_an_op_that_is_there_and_written_wrongly_is_not_called_missing():
    j = softmax()
    script = j.scheduled.kernels[0].schedule
    assert "in %root" in script and "tile_sizes [" in script
    for broken in (script.replace("in %root", "of %root"), script.replace("tile_sizes [", "tile_sizes {", 1)):
        with pytest.raises(wb.WorkbenchError, match="does not parse") as told:
            _ = j.with_(schedule={"k0": broken}).scheduled
        assert "there is no op" not in str(told.value)
