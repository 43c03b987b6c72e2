"""From a seed to the advice on a convolutional net: what each remedy promises beside what it saves when it is tried."""

from __future__ import annotations

import warnings

import pandas as pd

import workbench as wb
from tests.fuzz.conv_nets import conv_net
from tests.fuzz.judge import Verdict
from workbench.journey import Journey

WORTH = 0.01
"""Of all cycles: promises and losses below it are not looked at."""


def judged_advice(seed: int) -> Verdict:
    """A net in training or in evaluation mode, without its gradients, on its machine.

    `broken` is a promise of the wrong sign, and what is at stake below what was saved. `loses` is a remedy without a
    promise that costs cycles.
    """
    net = conv_net(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        journey = wb.trace(net.net(), net.images(), machine=eval(net.machine, {"wb": wb}), fusion=eval(net.fusion))
        return judge_advice(journey)


def judge_advice(journey: Journey) -> Verdict:
    """The verdict on one journey's findings."""
    whole, losing = journey.simulated.cycles, list[str]()
    found = journey.findings
    if found.records and found.records[0].cycles and found.records[0].about not in ("", _binds(found.binding)):
        return Verdict("first", f"{found.binding}, and the first finding is {found.records[0].rule}")
    for row in found.tried().itertuples():
        if pd.isna(row.gain):
            continue
        told = f"{row.rule}: promised {row.predicted}, saved {row.gain} of {whole}"
        if row.gain > row.cycles or (not pd.isna(row.predicted) and row.gain < -WORTH * whole):
            return Verdict("broken", told)
        losing += [told] if row.gain < -WORTH * whole else []
    return Verdict("loses", "; ".join(losing)) if losing else Verdict("ok", "")


def _binds(line: str) -> str:
    return line.removeprefix("bound by ").partition(":")[0]
