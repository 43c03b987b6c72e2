"""Stage 5, simulate: the launches of a program on a machine."""
