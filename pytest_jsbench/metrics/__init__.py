"""Numbers of records: intervals, summaries, comparisons, prices and gates."""
