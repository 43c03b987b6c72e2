"""Threads that use all verbs at once, beside threads that only run PyTorch on the same tensors."""
