"""Settings of a run for every entry point: the table of options, variants and the `Plan`."""
