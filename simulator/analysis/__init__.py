"""Analyses of a trace that explain the time and energy of a run."""
