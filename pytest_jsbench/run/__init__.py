"""Make the attempts of a run and record them: retries, limits, cost, batches and classifiers."""
