"""Kernels that people write: templates, builders, hooks."""
