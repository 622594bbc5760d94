"""Datasets: read cases, from one module per kind of source."""
