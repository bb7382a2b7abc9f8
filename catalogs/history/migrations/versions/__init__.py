"""A file each step, in order."""
