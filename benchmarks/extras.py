"""
Measure what each extra installs: packages, megabytes and seconds.

    python -m benchmarks.extras [EXTRA …]             # all but those that install PyTorch; takes half an hour

Each extra is installed alone, by pip without a cache, in a fresh virtual environment that has the package already. The
first row is the package itself. Printed as a Markdown table, as in `docs/providers.md`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Extras of contributors, which users do not install, and one that installs gigabytes.
_LEFT_OUT = ("calls", "docs", "lint", "test", "xgrammar")
_MB = 1e6


def _pip(python: Path, *arguments: str) -> str:
    """Run pip in an environment, and return what it prints."""
    command = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _installed(python: Path) -> set[str]:
    return {line.partition("==")[0] for line in _pip(python, "list", "--format=freeze").splitlines()}


def _size(folder: Path) -> float:
    """Return the size of all files in megabytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / _MB


def _install(wheel: Path, extra: str) -> str:
    """Install the extra in a fresh environment, and return its row."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        before: set[str] = _installed(python)
        if extra:
            _pip(python, "install", str(wheel))
            before = _installed(python)
        size = _size(Path(folder))
        start = time.perf_counter()
        _pip(python, "install", f"{wheel}[{extra}]" if extra else str(wheel))
        seconds = time.perf_counter() - start
        packages = sorted(_installed(python) - before, key=str.lower)
        megabytes = _size(Path(folder)) - size
    name = f"`{extra}`" if extra else "none"
    return f"| {name} | {len(packages)} | {megabytes:.0f} | {seconds:.0f} | {', '.join(packages)} |"


def main() -> None:
    """Print a row for the package itself, and for each extra."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    parser = argparse.ArgumentParser(description="measure what each extra installs")
    parser.add_argument("extras", nargs="*", default=["", *(each for each in declared if each not in _LEFT_OUT)])
    extras = parser.parse_args().extras
    print("| extra | packages | MB | seconds | what it installs |\n|---|---:|---:|---:|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        _pip(Path(sys.executable), "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, str(ROOT))
        (wheel,) = Path(folder).glob("*.whl")
        for extra in extras:
            print(_install(wheel, extra), flush=True)


if __name__ == "__main__":
    main()
