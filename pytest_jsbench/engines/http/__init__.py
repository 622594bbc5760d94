"""What every call over HTTP shares: deadlines, answers as they arrive, and how errors are read."""
