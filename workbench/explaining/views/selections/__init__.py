"""Selecting anything, and finding its parts at every stage."""
