"""What everything stands on: errors, environment, processes that try things first, tables and HTML."""
