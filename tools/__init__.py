"""Generators of pages and of published JSON Schemas, run as `python -m tools.NAME`."""
