"""Python API for scripts and notebooks: datasets, engines, evaluations and runs, without importing pytest."""
