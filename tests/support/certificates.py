"""A certificate for servers with TLS on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path


def write_certificate(folder: Path) -> Path:
    """Write a private key with its certificate, made by openssl, and return the file; raise OSError without openssl."""
    path = folder / "server.pem"
    public = folder / "public.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(path), "-out", str(public)]
    subprocess.run(command, check=True, capture_output=True)
    path.write_bytes(path.read_bytes() + public.read_bytes())
    return path
