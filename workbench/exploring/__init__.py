"""Code that changes and compares journeys: knobs, tuning, comparisons, advice, the overview."""
