"""A folder of runs as pages on this machine: `jsbench view`."""
