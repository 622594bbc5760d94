"""Metrics: compute rates, times, summaries, comparisons, prices and gates from records."""
