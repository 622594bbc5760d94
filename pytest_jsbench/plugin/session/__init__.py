"""What one session of pytest has in common: its cases, its folder, and what its processes tell each other."""
