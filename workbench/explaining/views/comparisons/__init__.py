"""Journeys and mappings side by side."""
