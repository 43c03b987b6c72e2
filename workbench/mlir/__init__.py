"""Shared code for MLIR: contexts, bindings, loops, moves, the scheduled form."""
