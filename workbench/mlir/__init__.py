"""What everything that touches MLIR shares: contexts, bindings, loops, moves, the scheduled form."""
