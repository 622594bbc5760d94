"""What every call over HTTP shares: the client, deadlines, answers as they arrive, and how errors are read."""
