"""What the package costs, measured by pytest-benchmark; run as `pytest benchmarks/`."""
