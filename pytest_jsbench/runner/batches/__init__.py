"""The attempts of a run as a provider's batches: submitted together, waited for, and read by each test from a file."""
