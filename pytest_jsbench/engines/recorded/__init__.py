"""Answers of before: recordings beside tests, and whole runs."""
