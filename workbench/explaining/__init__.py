"""What is shown of records: handles, views of them, and findings."""
