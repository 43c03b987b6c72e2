"""Stage 3, render: every kernel as verified MLIR on whole tensors."""
