"""The stages of a journey: their table, their inputs, and the journey's request."""
