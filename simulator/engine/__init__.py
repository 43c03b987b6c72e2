"""Programs x machine -> trace, event by event."""
