"""The ground floor: errors, environment, processes that try things first, tables and HTML."""
