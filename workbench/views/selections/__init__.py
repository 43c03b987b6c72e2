"""Pointing at anything, and what belongs to it at every stage."""
