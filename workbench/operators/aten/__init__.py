"""ATen ops: the registry of their routes, their names and schemas, and the list of proven ones."""
