"""Cores that differ: figures of their own, in texts and in files, and their shares of the work."""
