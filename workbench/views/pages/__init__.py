"""Whole pages and overviews."""
