"""Chiplets: a machine whose memory is divided among chiplets, and the table of which chiplet holds each page."""
