"""Define the options of a run in one table, which every entry point reads."""
