"""Cores that differ: their own figures, in texts and in files, and their shares of the work."""
