"""Make a run's calls in batches of a provider: submit the batches, wait for them, and read the answers."""
