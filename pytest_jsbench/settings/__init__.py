"""Define the settings of a run for every entry point: the table of options, the variants and the `Plan`."""
