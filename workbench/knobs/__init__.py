"""The knobs of a journey: the costs of each setting, and a session of trying settings."""

from __future__ import annotations

from workbench.knobs.experiment import Experiment as Experiment
from workbench.knobs.experiment import Step as Step
from workbench.knobs.knob import Knob as Knob
from workbench.knobs.knobs_answer import Knobs as Knobs
from workbench.knobs.knobs_answer import knobs_of as knobs_of
from workbench.knobs.sweep import Point as Point
from workbench.knobs.sweep import Sweep as Sweep
