"""Batches of a provider: submit, wait and read the answers."""
