"""The costs of instructions on each kind of unit, one file each, and the table of costs that the engine reads."""
