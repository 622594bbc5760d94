"""The command `jsbench`, with a module for each subcommand; pytest is not imported."""
