"""Plan a run, make its attempts and record them: variants, retries, limits, cost, batches and classifiers."""
