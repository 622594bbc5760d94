"""`python -m pytest_jsbench`: the same as the command `jsbench`."""

from __future__ import annotations

import sys

from pytest_jsbench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
