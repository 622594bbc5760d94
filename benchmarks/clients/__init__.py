"""What clients accept and the judge rejects, and the reverse."""
