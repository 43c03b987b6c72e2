"""Everything that draws or talks to a notebook. Reached by name only, so that the core installs without it."""
