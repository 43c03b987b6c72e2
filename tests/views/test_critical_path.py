"""The critical path and the slack of a whole journey, as tables and as a mark on the timeline."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench import Journey
from workbench.explaining.views.timelines.gantt import OTHER


@pytest.fixture(scope="module")
def product() -> Journey:
    layer = torch.nn.Linear(64, 96)
    return wb.trace(lambda x: torch.softmax(layer(x), -1), torch.randn(32, 64), machine="edge-8x8")


def test_the_path_is_the_makespan_piece_by_piece(product: Journey) -> None:
    path, simulated = product.simulated.critical_path, product.simulated
    assert path.cycles.sum() == simulated.cycles
    assert path.begin.tolist() == [0, *path.end.tolist()[:-1]]
    assert path.groupby("what").cycles.sum().to_dict() == dict(simulated.waterfall.itertuples(index=False))
    events = simulated.events.loc[path.span]
    assert events.kind.tolist() == path.kind.tolist()
    assert (path[path.what != "issue"].begin.to_numpy() >= events[path.what.to_numpy() != "issue"].start).all()


def test_events_have_slack_and_those_at_the_end_none(product: Journey) -> None:
    events = product.simulated.events
    assert (events.slack >= 0).all()
    assert events.slack.max() > 0
    last = events[events.launch == events.launch.max()].end.idxmax()
    assert events.slack[last] == 0


def test_a_loaded_journey_has_both(product: Journey, tmp_path: Path) -> None:
    product.save(tmp_path / "j.wb")
    loaded = wb.load(tmp_path / "j.wb")
    assert loaded.simulated.events.slack.tolist() == product.simulated.events.slack.tolist()
    assert loaded.simulated.critical_path.equals(product.simulated.critical_path)


def test_the_timeline_marks_the_path(product: Journey) -> None:
    simulated = product.simulated
    path = simulated.critical_path
    spans = set(path[path.what != "issue"].span)
    drawn = simulated.gantt(critical=True)
    assert set(drawn.row[drawn.kind != drawn.kinds.index(OTHER)]) == spans
    assert 0 < len(spans) < len(simulated.events)
    assert simulated.text(critical=True) != simulated.text()
    selection = product.select("softmax")
    both = simulated.gantt(select=selection, critical=True)
    assert set(both.row[both.kind != both.kinds.index(OTHER)]) == spans & set(selection.spans) != set()
