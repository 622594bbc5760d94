"""The settings of a run, whoever says them: the table of options, the ways to ask (`Variant`) and the `Plan`."""
