"""Records as plain data for reading: tables, text, HTML and pictures' geometry. Nothing here draws or imports a UI."""
