"""Errors of single operators over all of their domain, beside PyTorch's."""
