"""The modules of the package as their authors wrote them, parsed once for all tests that read them."""

from __future__ import annotations

import ast
from functools import cache

from tests.docs.reference import PACKAGE


@cache
def trees() -> dict[str, ast.Module]:
    """Parse each module, by its path inside the package."""
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text("utf-8")) for path in PACKAGE.rglob("*.py")}
