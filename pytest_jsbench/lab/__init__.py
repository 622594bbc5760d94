"""Rooms that nobody imports: an entry point finds them, as it would find a stranger's."""
