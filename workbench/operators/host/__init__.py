"""The host route: PyTorch computes records and nodes."""
