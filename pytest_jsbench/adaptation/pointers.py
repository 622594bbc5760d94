"""References written as JSON pointers, the only ones that llama.cpp follows."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.dialects import DIALECTS, dialect_of
from pytest_jsbench.schemas.keywords import Tokens, located
from pytest_jsbench.schemas.references import References, follow, pointer_of

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Schema

#: a step that llama.cpp reads as it stands: it knows no escapes
_PLAIN = re.compile(r"[\w.$-]+")
_POINTER = re.compile(rf"#(?:/{_PLAIN.pattern})+")
_ROOT = ("$defs", "root")


def put_below(schema: Mapping[str, Any]) -> Any:
    """The schema itself, where `with_pointers` has put it below `$defs`; None where it has not."""
    return follow(schema, _ROOT) if schema.get("$ref") == f"#{pointer_of(_ROOT)}" else None


def with_pointers(schema: Schema) -> Schema:
    """
    The same schema, in which every `$ref` is a pointer to a part of it; the one given where one cannot be written so.

    llama.cpp follows `#/$defs/node`, and no anchor, no URI and no `#`, the schema itself, which is then put in `$defs`.
    """
    dialect = dialect_of(schema, DIALECTS[-1]) if isinstance(schema, dict) else None
    if not isinstance(schema, dict) or dialect is None:
        return schema
    parts = list(located(schema))
    referring: dict[Tokens, Any] = {path: part for path, part in parts if isinstance(part.get("$ref"), str)}
    # below another identifier a pointer begins there
    nested = any(isinstance(part.get(name), str) for _, part in parts[1:] for name in ("$id", "id"))
    if not nested and all(_POINTER.fullmatch(part["$ref"]) for part in referring.values()):
        return schema
    references, places = References(schema, dialect), {id(part): path for path, part in parts}
    targets = {path: places.get(id(references.resolve(part, part["$ref"]))) for path, part in referring.items()}
    known = [target for target in targets.values() if target is not None]
    if len(known) < len(targets) or not all(_PLAIN.fullmatch(step) for target in known for step in target):
        return schema
    result: dict[str, Any] = copy.deepcopy(schema)
    prefix = _ROOT if () in known else ()
    for path, target in targets.items():
        follow(result, path)["$ref"] = f"#{pointer_of((*prefix, *(target or ())))}"
    for path, _ in parts if prefix else parts[1:]:
        for name in ("$id", "id"):  # pointers would begin there
            if isinstance(follow(result, path).get(name), str):
                del follow(result, path)[name]
    if not prefix:
        return result
    result.pop("$schema", None)
    own = {name: schema[name] for name in ("$schema", "$id", "id") if isinstance(schema.get(name), str)}
    return {**own, "$ref": f"#{pointer_of(_ROOT)}", "$defs": {_ROOT[1]: result}}
