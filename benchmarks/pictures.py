"""
Draw the pictures of the pages, from runs of the small model: `python -m benchmarks.pictures [--folder F]`.

Requires the extras local, report, view and plot, and Chromium. With a directory of earlier runs, named `constrained`,
`free` and `variants`, no calls are made.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
#: Options for eight cases of two tasks that are small enough for a model with 135 million parameters.
CASES = ("--jsbench-engine=local", "--jsbench-tasks=simple,medium", "--tb=no", "-q")
LIMIT = ("--jsbench-limit=8",)
#: Options of a run with two prompts as variants.
VARIANTS = ("--jsbench-prompt=schema", "--jsbench-prompt=fields", "--jsbench-limit=5")
FREE = ("--jsbench-response-format=text", "--jsbench-engine-option=bounded=false")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
    "--hide-scrollbars",
    "--hide-scrollbars",
)


def run_cases(folder: Path) -> None:
    """Run the cases with and without constrained decoding, and with two prompts."""
    for name, options in (("constrained", LIMIT), ("free", (*LIMIT, *FREE)), ("variants", VARIANTS)):
        command = [sys.executable, "-m", "pytest", *CASES, *options, f"--jsbench-output={folder / name}"]
        subprocess.run(command, check=False, cwd=folder)


def run_of(folder: Path) -> Path:
    """Return the only run of a directory."""
    (run,) = folder.iterdir()
    return run


def shoot(address: str, picture: Path, size: str, *options: str) -> None:
    """Take a screenshot of a page with Chromium."""
    program = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                program,
                *QUIET,
                *options,
                f"--user-data-dir={profile}",
                f"--window-size={size}",
                f"--screenshot={picture}",
                address,
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )


def draw(folder: Path) -> None:
    """Draw pages of runs, of a comparison and of `jsbench view`, and a plot of two runs."""
    jsbench = [sys.executable, "-m", "pytest_jsbench"]
    constrained, free = run_of(folder / "constrained"), run_of(folder / "free")
    page = folder / "report.html"
    subprocess.run([*jsbench, "report", constrained, "-o", page], check=True)
    shoot(page.as_uri(), DOCS / "report.png", "1280,1000")
    subprocess.run([*jsbench, "report", run_of(folder / "variants"), "-o", page], check=True)
    shoot(page.as_uri(), DOCS / "variants.png", "1280,1000")
    shoot(page.as_uri(), DOCS / "report-phone.png", "500,1200", "--blink-settings=preferredColorScheme=0")
    files = [str(run / "run.json") for run in (free, constrained)]
    labels = ["--labels", "free", "constrained"]
    subprocess.run([*jsbench, "plot", "--files", *files, *labels, "--output", DOCS / "comparison.png"], check=True)
    subprocess.run([*jsbench, "compare", free, constrained, *labels, "-o", page], check=True)
    shoot(page.as_uri(), DOCS / "comparison-page.png", "1280,480")
    runs = folder / "runs"
    runs.mkdir(exist_ok=True)
    for run in (constrained, free):
        shutil.copytree(run, runs / run.name, dirs_exist_ok=True)
    with subprocess.Popen([*jsbench, "view", runs], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        link = server.stdout.readline().strip()
        address, token = re.fullmatch(r"(http://[^/]+)/(\?token=.+)", link).groups()  # type: ignore[union-attr]
        shoot(link, DOCS / "view.png", "1280,420")
        shoot(f"{address}/run/{constrained.name}{token}", DOCS / "view-run.png", "1280,1000")
        shoot(f"{address}/run/{constrained.name}/0{token}", DOCS / "view-attempt.png", "1280,900")
        server.terminate()


def main() -> None:
    """Make the runs if none are given, and draw."""
    parser = argparse.ArgumentParser(description="draw the pictures of the pages")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.folder is not None:
        draw(options.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        run_cases(Path(name))
        draw(Path(name))


if __name__ == "__main__":
    main()
