"""Run the command `jsbench` as `python -m pytest_jsbench`."""

from __future__ import annotations

import sys

from pytest_jsbench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
