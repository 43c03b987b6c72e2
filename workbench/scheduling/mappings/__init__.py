"""Mappings from files, written by a person or found by tuning, and their assignment to kernels."""
