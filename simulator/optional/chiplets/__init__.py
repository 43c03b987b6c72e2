"""Chiplets: a machine whose memory is divided among them, and who of them holds which page."""
