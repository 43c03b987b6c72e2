"""What a person changes and compares: knobs, tuning, comparisons, advice, the overview."""
