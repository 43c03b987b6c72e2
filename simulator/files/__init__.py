"""Files and folders: versioned archives, zips from anybody, JSON held to types, the folder of caches."""
