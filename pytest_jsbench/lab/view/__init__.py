"""Show a directory of runs as web pages on this machine: `jsbench view`."""
