"""Comparison of client libraries with the judge: answers that only one of them accepts."""
