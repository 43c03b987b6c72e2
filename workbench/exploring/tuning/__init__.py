"""Tuning: the map space of a kernel, and the search for the fastest mapping with the simulator in the loop."""
