"""What each kind of unit takes, one file each, and the table of costs that the engine walks."""
