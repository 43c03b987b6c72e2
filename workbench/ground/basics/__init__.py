"""Building blocks of all views: tables, HTML, colours, diffs."""
