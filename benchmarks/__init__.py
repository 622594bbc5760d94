"""Benchmarks; `pytest benchmarks/` runs those that use pytest-benchmark."""
