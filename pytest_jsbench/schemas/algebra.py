"""
Compare what two schemas accept with the algebra of jsonschema-rs.

Call it in a child process only: the schemas are untrusted, and the algebra has no limit of time or memory.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from pytest_jsbench.schemas.dialects import Dialect

_KNOWN = {jsonschema_rs.canonical.Containment.YES: True, jsonschema_rs.canonical.Containment.NO: False}


def covers(outer: Any, inner: Any, dialect: Dialect) -> bool | None:
    """
    Return whether the outer schema accepts every value that the inner schema accepts; None if the algebra cannot
    decide.

    Both schemas are read in this dialect, and formats are compared like other keywords.
    """
    draft = getattr(jsonschema_rs, dialect.validator.removesuffix("Validator"))
    try:
        large, small = (
            jsonschema_rs.canonicalize(schema, draft=draft, validate_formats=True, offline=True)
            for schema in (outer, inner)
        )
        return _KNOWN.get(large.covers(small))
    except (ValueError, jsonschema_rs.ReferencingError):  # for example an operand that the algebra does not support
        return None
