"""Cores that differ: all that they are is a machine's shape, simulator/machine/optional/uneven_cores."""
