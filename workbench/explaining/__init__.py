"""Handles of the stages, views of records, and findings."""
