"""The command `jsbench`: a module for each command; it knows no pytest."""
