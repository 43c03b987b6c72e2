"""Stage 1, capture: from a PyTorch function to the graph of ATen calls."""
