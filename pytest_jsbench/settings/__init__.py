"""Define the settings of a run: the table of options, the variants, and the `Plan` that every entry point builds."""
