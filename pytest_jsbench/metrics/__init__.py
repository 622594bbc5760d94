"""Compute metrics from records: rates, times, summaries, comparisons, prices and gates."""
