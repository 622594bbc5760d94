"""The attempts of a run as a provider's batches: handed in together, awaited, and answered to each test from a file."""
