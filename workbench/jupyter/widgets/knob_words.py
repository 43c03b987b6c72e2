"""Knobs, steps and maps as they are sent to the browser: plain values and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from workbench.explaining.views.comparisons.heat_map import HeatMap, Spot, summary
from workbench.exploring.knobs.knob import Knob, text_of

if TYPE_CHECKING:
    from workbench.exploring.knobs import Step, Sweep
    from workbench.exploring.knobs.knob import Value
    from workbench.exploring.knobs.turned_knobs import Turned


def knob_values(knob: Knob) -> dict[str, object]:
    """The data of a knob: its value at the start and the values worth trying."""
    return {
        "name": knob.name,
        "kernel": knob.kernel,
        "kind": knob.kind,
        "item": knob.item,
        "holds": _holds(knob.value),
        "start": text_of(knob.value),
        "values": [text_of(value) for value in knob.values],
        "range": knob.range,
        "about": knob.about,
    }


def _holds(value: Value) -> str:
    """The kind of a knob's value: on or off, an order, a word, a number."""
    if isinstance(value, bool):
        return "switch"
    if isinstance(value, tuple):
        return "order"
    return "word" if isinstance(value, str) else "number"


def step_values(step: Step[Any], history: Sequence[Step[Any]]) -> dict[str, object]:
    """The data of a step: its cost beside the first step's, the reason if it was refused, and the knobs turned for
    it."""
    first = history[0]
    before = [each for each in history if each.number < step.number and not each.refused]
    turned = _turned(before[-1].setting, step.setting) if before else []
    written = _written(before[-1].setting, step.setting) if before else []
    return {
        "number": step.number,
        "cycles": step.cycles,
        "bytes": step.bytes,
        "more_cycles": None if step.cycles is None else step.cycles - (first.cycles or 0),
        "than_start": {"cycles": _than(step.cycles, first.cycles), "bytes": _than(step.bytes, first.bytes)},
        "refused": step.refused,
        "problems": [{"line": problem.line, "message": problem.message} for problem in step.problems],
        "call": step.call,
        "turned": [{"kernel": knob.kernel, "name": knob.name} for knob, _ in turned],
        "written": written,
        "what": _what(step, turned, written),
        "values": [
            {"kernel": knob.kernel, "name": knob.name, "text": text_of(value)}
            for knob, value in step.setting.values.items()
        ],
        "scripts": list(step.setting.scripts),
    }


def _than(now: int | None, first: int | None) -> str:
    """The difference to the start, in words."""
    if now is None or first is None:
        return ""
    if now == first:
        return f"as at the start, {first:,}"
    if not first:
        return f"{now - first:+,}"
    if first / 2 < now < 2 * first:
        return f"{now - first:+,}, {abs(now - first) / first:.1%} {'more' if now > first else 'less'} than at the start"
    if now < first:
        return f"{now - first:+,}, {first / max(now, 1):.1f} times fewer than at the start"
    return f"{now - first:+,}, {now / first:.1f} times the start's"


def _turned(before: Turned[Any], now: Turned[Any]) -> list[tuple[Knob, Value]]:
    """The knobs whose values differ in two settings, with their new values."""
    knobs = {**before.values, **now.values}
    return [(knob, now.value_of(knob)) for knob in knobs if before.value_of(knob) != now.value_of(knob)]


def _written(before: Turned[Any], now: Turned[Any]) -> list[str]:
    """The kernels whose scripts differ in two settings."""
    return [name for name in {**before.scripts, **now.scripts} if before.scripts.get(name) != now.scripts.get(name)]


def _what(step: Step[Any], turned: Sequence[tuple[Knob, Value]], written: Sequence[str]) -> str:
    if step.number == 0:
        return "start"
    if step.back_to is not None:
        return f"back to {step.back_to or 'the start'}"
    parts = [f"{knob.name} {text_of(value) or 'left empty'}" for knob, value in turned]
    parts += [
        f"script of {kernel}" if kernel in step.setting.scripts else f"own script of {kernel}" for kernel in written
    ]
    return ", ".join(parts) or "the same again"


def map_values(sweep: Sweep[Any], step: Step[Any], *, done: bool) -> dict[str, object]:
    """The known part of a map: each cell's number, the strength of its colour, and its text. `step` is the current
    step, which may have changed since the map was begun; the map is shown beside it."""
    now = step.setting
    moved = [knob for knob, _ in _turned(sweep.start, now) if knob not in sweep.knobs]
    apart = [f"{knob.name}{knob.kernel and f' of {knob.kernel}'}" for knob in moved]
    apart += [f"the script of {kernel}" for kernel in _written(sweep.start, now)]
    place = None if apart else sweep.place(tuple(map(now.value_of, sweep.knobs)))
    view = sweep.record
    if place is not None:
        here = view.spots[place[0]][place[1]]
        if here is None and step.cycles is not None:
            time = step.cycles / step.setting.machine.clock_mhz
            view = view.with_spot(place, Spot(step.cycles, step.bytes, "", time))
        elif here is not None and here.refused:
            place = None  # the setting in force is not the refused one: others are fused now
    view = replace(view, today=place, called="the setting now")
    return {
        "kernel": next((knob.kernel for knob in sweep.knobs if knob.kernel), ""),
        "down": view.down,
        "across": view.across,
        "rows": list(view.rows),
        "columns": list(view.columns),
        "cells": [[_cell(view, row, column) for column in range(len(view.columns))] for row in range(len(view.rows))],
        "now": place,
        "apart": f"It was begun before {', '.join(apart)} changed: fill it again." if apart else "",
        "best": view.best,
        "summary": summary(view),
        "known": len(sweep.points),
        "total": sweep.total,
        "done": done,
    }


def _cell(view: HeatMap, row: int, column: int) -> dict[str, object]:
    spot = view.spots[row][column]
    ran = spot is not None and spot.cycles is not None
    return {
        "text": view.written(spot) if spot is not None else "",
        "colour": round(view.colour(spot), 3) if spot is not None and ran else None,
        "state": "ran" if ran else "unknown" if spot is None else "refused",
        "told": view.cell_text(row, column),
    }
