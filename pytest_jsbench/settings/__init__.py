"""Define the options of a run in groups, and their values as one `RunSpec`."""
