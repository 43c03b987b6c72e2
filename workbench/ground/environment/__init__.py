"""The journey's environment: processor, disk, threads, progress, the user's own lines and cells."""
