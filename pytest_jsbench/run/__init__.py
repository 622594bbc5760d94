"""A case becomes a record: retries, limits, money, batches and classifiers."""
