"""Calls over HTTP: the client, deadlines, answers as they arrive, and the reading of errors."""
