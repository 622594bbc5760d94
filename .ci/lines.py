"""
Lines by package beside the budgets of pyproject.toml (`[tool.lines]`): `python .ci/lines.py`.

It ends with 1 where a package, or all of them, has more lines than `most` allows, so that what is added names what
leaves; with `enforce` too where one has more than a tenth above its budget, which is the aim.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(root: Path = ROOT) -> int:
    """Print the table; 1 where a package has grown, or a budget is enforced and passed."""
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["lines"]
    budgets: dict[str, int] = settings["budgets"]
    lines: Counter[str] = Counter()
    for path in (root / settings["package"]).rglob("*.py"):
        parts = path.relative_to(root / settings["package"]).parts
        lines[parts[0] if len(parts) > 1 else "(top)"] += len(path.read_text("utf-8").splitlines())
    lines["(all)"] = lines.total()
    over = []
    grown = [name for name, most in settings["most"].items() if lines[name] > most]
    print(f"{'package':<14}{'lines':>8}{'budget':>8}")
    for name in sorted({*lines, *budgets}):
        budget = budgets.get(name)
        over += [name] if budget is not None and lines[name] > 1.1 * budget else []
        mark = ("  over" if name in over else "") + ("  grown" if name in grown else "")
        print(f"{name:<14}{lines[name]:>8,}{'-' if budget is None else f'{budget:,}':>8}{mark}")
    if over:
        print(f"more than a tenth over the budget: {', '.join(over)}")
    for name in grown:
        most = settings["most"][name]
        print(f"{name} has {lines[name]:,} lines, at most {most:,} are allowed: take some away, or say why not")
    return int(bool(grown) or (bool(over) and settings["enforce"]))


if __name__ == "__main__":
    sys.exit(main())
