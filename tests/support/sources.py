"""Parse the modules of the package once, for all tests that read them."""

from __future__ import annotations

import ast
from functools import cache

from tools.reference import PACKAGE


@cache
def trees() -> dict[str, ast.Module]:
    """Parse each module; return the trees by path inside the package."""
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """Return all nodes of each module."""
    return {path: list(ast.walk(tree)) for path, tree in trees().items()}
