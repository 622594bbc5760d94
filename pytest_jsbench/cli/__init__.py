"""The command `jsbench`: a module for each subcommand. It does not import pytest."""
