"""Python API for scripts and notebooks: datasets, engines, evaluations and runs. It does not import pytest."""
