"""Operators: their registry, formulas, the host route, tensors, and files for new ones."""
