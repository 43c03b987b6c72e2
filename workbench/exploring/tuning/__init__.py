"""Tuning: the space of mappings of a kernel, and the search for the fastest with the simulator in the loop."""
