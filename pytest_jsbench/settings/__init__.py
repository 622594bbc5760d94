"""What may be said of a run, once, whoever says it: options, the ways to ask (`Variant`), and the run as a `Plan`."""
