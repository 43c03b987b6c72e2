"""The border to PyTorch's private parts: no other file names one (docs/design/torch-inside.md)."""
