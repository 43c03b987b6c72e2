"""Replays a tile program in numpy, in the order of its trace, to see if that order makes the right numbers."""
