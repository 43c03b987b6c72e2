"""The cost of each kind of unit, one file each, and the table of costs that the engine walks."""
