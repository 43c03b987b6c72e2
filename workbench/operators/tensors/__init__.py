"""torch's tensors and containers: their element types, their memory, and what a record may hold of them."""
