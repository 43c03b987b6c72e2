"""What the engine writes down."""
