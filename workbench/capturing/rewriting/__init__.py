"""Between capturing and lowering: graph passes and patterns that a user registers."""
