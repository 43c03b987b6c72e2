"""Records as plain data for reading: tables, text, HTML and the geometry of pictures. Nothing here draws."""
