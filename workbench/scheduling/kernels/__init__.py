"""Kernels that users write: templates, builders, hooks."""
