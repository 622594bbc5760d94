from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a file with a private key and its certificate, for servers on this machine."""
    path = tmp_path / "server.pem"
    options = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    command += ["-keyout", str(path), "-out", str(tmp_path / "c.pem")]
    try:
        subprocess.run([*command, *options], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl")
    path.write_bytes(path.read_bytes() + (tmp_path / "c.pem").read_bytes())
    return path
