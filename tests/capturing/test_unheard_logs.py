"""Messages to loggers inside a function: those that nobody hears do not break its graph."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable

import pytest
import torch

import workbench as wb
from workbench.errors import HostRoute

LOG = logging.getLogger("tests.unheard")
X = torch.randn(4, 5)


@functools.lru_cache(None)
def once(self: logging.Logger, text: str) -> None:
    self.warning(text)


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
