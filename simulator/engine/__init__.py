"""The engine: runs programs on a machine, event by event, and makes a trace."""
