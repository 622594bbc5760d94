"""Schemas of OpenAPI 3.0, which are not quite JSON Schema, as JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

from pytest_jsbench.verdicts.subschemas import rebuild

#: keywords that say nothing about what an instance may be, and that no JSON Schema has
_DROPPED = ("discriminator", "xml", "externalDocs")
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


def convert(schema: Any, *, unused: str | None) -> Any:
    """
    The schema as JSON Schema 2020-12.

    `unused` is the flag, `readOnly` or `writeOnly`, of properties that `required` does not ask for in the direction in
    which the body goes; None where it goes in both.
    """
    try:
        return rebuild(schema, lambda part: _converted(part, unused))
    except RecursionError:
        from pytest_jsbench.core.files import Unreadable

        raise Unreadable("nested too deeply to be converted", reason="too_deep") from None


def _converted(schema: dict[str, Any], unused: str | None) -> dict[str, Any]:
    if isinstance(schema.get("$ref"), str):
        # a reference has no other keywords that count; what was brought in stands beside the one at the top
        return {keyword: schema[keyword] for keyword in ("$ref", "$defs") if keyword in schema}
    for keyword in _DROPPED:
        schema.pop(keyword, None)
    _nullable(schema)
    for bound, exclusive in _BOUNDS:
        if (flag := schema.get(exclusive)) is True and bound in schema:
            schema[exclusive] = schema.pop(bound)
        elif isinstance(flag, bool):
            del schema[exclusive]
    if "example" in schema:
        schema["examples"] = [schema.pop("example")]
    if unused is not None:
        _ask_for_less(schema, unused)
    return schema


def _nullable(schema: dict[str, Any]) -> None:
    """`nullable` adds null to `type`, and says nothing where there is none, nor to an `enum` without null."""
    nullable, kind = schema.pop("nullable", None), schema.get("type")
    if nullable is True and isinstance(kind, str):
        schema["type"] = [kind, "null"]


def _ask_for_less(schema: dict[str, Any], unused: str) -> None:
    required, properties = schema.get("required"), schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return
    kept = [name for name in required if not (isinstance(name, str) and _flagged(properties.get(name), unused))]
    if kept:
        schema["required"] = kept
    else:
        del schema["required"]


def _flagged(schema: object, flag: str) -> bool:
    return isinstance(schema, dict) and schema.get(flag) is True
