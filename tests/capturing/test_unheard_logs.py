"""Messages to loggers inside a function: those that nobody hears do not break its graph."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable

import pytest
import torch

import workbench as wb
from workbench.ground.errors import HostRoute

LOG = logging.getLogger("tests.unheard")
X = torch.randn(4, 5)


@functools.lru_cache(None)
def once(self: logging.Logger, *args: object, **kwargs: object) -> None:
    """As `warning_once` of transformers."""
    self.warning(*args, **kwargs)  # type: ignore[arg-type]


def below(x: torch.Tensor) -> torch.Tensor:
    LOG.debug("shape %s", x.shape)
    LOG.info(f"{x.shape}")
    return x * 2


def in_its_first_call(x: torch.Tensor) -> torch.Tensor:
    LOG.once("said once")  # type: ignore[attr-defined]
    return x * 2


def in_each_call(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    LOG.warning("said")
    return y + 1


@pytest.mark.parametrize("function", [below, in_its_first_call])
def test_what_nobody_hears_breaks_no_graph(
    function: Callable[[torch.Tensor], torch.Tensor], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logging.Logger, "once", once, raising=False)
    LOG.setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HostRoute)
        j = wb.trace(function, X)
    assert torch.equal(j.run(X), X * 2)  # type: ignore[arg-type]


def test_what_is_printed_in_each_call_is_printed_in_each_run():
    LOG.setLevel(logging.WARNING)
    with pytest.warns(HostRoute, match="graph break"):
        j = wb.trace(in_each_call, X)
    heard: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    LOG.addHandler(handler)
    try:
        for _ in range(2):
            j.run(X)
    finally:
        LOG.removeHandler(handler)
    assert heard == ["said", "said"]


class Answering(logging.Logger):
    """A logger whose methods do more than log."""

    def __init__(self) -> None:
        super().__init__("answering", logging.CRITICAL)
        self.seen: list[object] = []

    def debug(self, msg: object, *args: object, **kwargs: object) -> object:  # type: ignore[override]
        return msg * 2  # type: ignore[operator]

    def warning(self, msg: object, *args: object, **kwargs: object) -> None:
        self.seen.append(msg)

    @functools.lru_cache(None)  # noqa: B019
    def scale(self, factor: int) -> int:
        return factor * 2


ANSWERING = Answering()


def answered(x: torch.Tensor) -> torch.Tensor:
    y = ANSWERING.debug(x)
    return x * 3 if y is None else y  # type: ignore[return-value]


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * ANSWERING.scale(3)


@pytest.mark.filterwarnings("ignore::workbench.ground.errors.HostRoute")
@pytest.mark.parametrize("function", [answered, scaled])
def test_what_a_method_of_its_own_returns_is_kept(function: Callable[[torch.Tensor], torch.Tensor]):
    j = wb.trace(function, X)
    assert torch.equal(j.run(X), function(X))  # type: ignore[arg-type]
    assert j.check().ok


@pytest.mark.test_all
@pytest.mark.parametrize("name", ["warning", "once"])
def test_what_a_method_of_its_own_does_is_done_in_each_run(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logging.Logger, "once", once, raising=False)

    def noted(x: torch.Tensor) -> torch.Tensor:
        getattr(ANSWERING, name)(f"noted by {name}")
        return x * 2

    with pytest.warns(HostRoute, match="graph break"):
        j = wb.trace(noted, X)
    once.cache_clear()
    ANSWERING.seen.clear()
    j.run(X)
    assert ANSWERING.seen == [f"noted by {name}"]
