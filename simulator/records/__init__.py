"""The records that the engine writes."""
