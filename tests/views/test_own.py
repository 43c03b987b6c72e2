"""Views of a user's own, by stage and name."""

from __future__ import annotations

import pytest
import torch

import workbench as wb
from workbench.ground.errors import BadOption, BadRegistration

pytestmark = pytest.mark.usefixtures("own_scope")


def test_a_view_belongs_to_its_stage_takes_options_and_is_replaced_by_its_next_version():
    captured = wb.capture(lambda x: torch.relu(x) + 1, torch.randn(3))

    @wb.view("captured")
    def ops(handle: wb.Captured, prefix: str = "") -> wb.Table:
        return wb.Table(("op",), tuple((prefix + node.op,) for node in handle.record.nodes))

    wb.view("simulated", "other")(lambda handle: handle)
    assert captured.views == ("ops",)
    frame = captured.view("ops", prefix=">")
    assert list(frame.op) == [">aten.relu.default", ">aten.add.Tensor"]  # type: ignore[attr-defined]

    @wb.view("captured")
    def ops(handle: wb.Captured) -> int:  # type: ignore[no-redef]  # noqa: F811
        return len(handle)  # type: ignore[arg-type]

    with pytest.raises(TypeError):
        captured.view("ops")

    @wb.view("captured")
    def ops(handle: wb.Captured) -> str:  # type: ignore[no-redef]  # noqa: F811
        return repr(handle)

    assert captured.view("ops") == repr(captured)


def test_unknown_views_and_stages_are_named():
    captured = wb.capture(torch.relu, torch.randn(3))
    with pytest.raises(BadOption, match="captured has no view 'opps'; registered: none yet"):
        captured.view("opps")
    wb.view("captured", "ops")(repr)
    with pytest.raises(BadOption, match="did you mean 'ops'"):
        captured.view("opps")
    with pytest.raises(BadRegistration, match="expected one of captured, lowered"):
        wb.view("timeline")
