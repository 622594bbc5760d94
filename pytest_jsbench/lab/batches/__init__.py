"""Send a run's requests through a provider's batch API: submit batches, wait for them, and read the answers."""
