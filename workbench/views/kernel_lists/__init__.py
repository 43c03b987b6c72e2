"""Kernels, their passes, and the plans of their tensors."""
