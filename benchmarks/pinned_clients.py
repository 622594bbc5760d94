"""Install pinned client libraries in a temporary directory, and run a benchmark's module or program with them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.pages import ROOT


def install_python(directory: Path, pins: Mapping[str, str], *, needs_this_package: bool) -> Path:
    """
    Create an environment with the distributions, and return its Python.

    If a module needs this package, its requirements are installed; the package itself is imported from the repository.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    python = directory / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    pinned = [f"{name}=={version}" for name, version in pins.items()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = project["dependencies"] if needs_this_package else []
    install = ["install", "-q", "--disable-pip-version-check", "--no-compile"]
    command = [sys.executable, "-m", "pip", "--python", str(python), *install]
    subprocess.run([*command, *pinned, *required], check=True)
    return python


def install_node(directory: Path, pins: Mapping[str, str], program: Path) -> str:
    """Install the packages, and return the path of a copy of the program that can import them."""
    npm = shutil.which("npm")
    assert npm is not None, "npm is not installed; install Node.js 20 or newer"
    pinned = [f"{name}@{version}" for name, version in pins.items()]
    subprocess.run([npm, "install", "--silent", "--prefix", str(directory), *pinned], check=True)
    return str(shutil.copy(program, directory))


def run_module(python: Path, module: str, *arguments: str) -> dict[str, Any]:
    """Run a module of the repository with this Python, and return the JSON object that it prints."""
    command = [str(python), "-W", "ignore", "-m", module, *arguments]
    done = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed
