"""PyTorch's tensors and containers: element types, memory, and the values that a record may hold."""
