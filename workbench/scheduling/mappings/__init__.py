"""Mappings from files: a person's own, and those that tuning found; which of them are for which kernel."""
