"""The trace, and its file."""
