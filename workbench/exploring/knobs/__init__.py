"""The knobs of a journey: the costs of each setting, and sessions that try settings."""

from __future__ import annotations

from workbench.exploring.knobs.experiment import Experiment as Experiment
from workbench.exploring.knobs.experiment import Step as Step
from workbench.exploring.knobs.knob import Knob as Knob
from workbench.exploring.knobs.knobs_answer import Knobs as Knobs
from workbench.exploring.knobs.knobs_answer import knobs_of as knobs_of
from workbench.exploring.knobs.sweep import Point as Point
from workbench.exploring.knobs.sweep import Sweep as Sweep
