"""Changes and comparisons of journeys: knobs, tuning, comparisons, advice, the overview."""
