"""Stage 4, schedule: tilings, passes, and the scheduled form."""
