"""Batches of a provider: handed in, waited for and read."""
