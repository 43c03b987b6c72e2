"""Common ground of all code on MLIR: contexts, bindings, loops, moves, the scheduled form."""
