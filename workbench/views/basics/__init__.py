"""What all views are made of: tables, HTML, colours, diffs."""
