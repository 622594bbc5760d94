from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.certificates import write_certificate


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with a private key and its certificate, for servers on this machine."""
    try:
        return write_certificate(tmp_path)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl")
