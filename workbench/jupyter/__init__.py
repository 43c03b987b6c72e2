"""Everything that draws or talks to a notebook. It is imported only by name, so that the core installs without it."""
