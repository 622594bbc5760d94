"""
Write objects of Python types as JSON that conforms to the type's JSON Schema for validation or serialization.

Pydantic itself writes JSON only for serialization. In contrast, JSON for validation is input that the type accepts: it
uses validation aliases, includes excluded fields, omits computed fields, and does not apply serializers.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import Secret, SecretBytes, SecretStr
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, SchemaSerializer

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import core_schema

    from pytest_jsbench.schemas.modes import Mode

_FIELDS = frozenset({"model-field", "dataclass-field", "typed-dict-field"})
_FUNCTIONS = frozenset({"function-plain", "function-wrap"})
#: Keys of a Pydantic core schema with values that are not core schemas themselves.
_VALUES = frozenset({"metadata", "config", "default", "expected", "validation_alias", "serialization"})
_NO_SECRET = object()
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"


class SchemaWriter(GenerateJsonSchema):
    """Pydantic's JSON Schema generator, changed for untyped serializers, secrets, and times without a time zone."""

    def ser_schema(self, schema: Any) -> dict[str, Any] | None:
        """
        Return the schema of a serializer's result, which is any value if a custom serializer
        declares no return type.
        """
        # Pydantic would describe the value before serialization, but the serializer may return another type
        if schema["type"] in _FUNCTIONS and schema.get("return_schema") is None and _is_custom(schema["function"]):
            return {}
        if schema["type"] == "function-plain" and getattr(schema["function"], "__name__", "") == "_serialize_secret":
            return {"type": "string"}  # Secret[…] is written as asterisks, whatever the type of its value
        return super().ser_schema(schema)

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a date and time; serialized values may lack the time zone that the format requires."""
        return self._allow_naive(super().datetime_schema(schema), schema, f"{_DATE}T{_TIME}")

    def time_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a time; serialized values may lack the time zone that the format requires."""
        return self._allow_naive(super().time_schema(schema), schema, _TIME)

    def _allow_naive(self, written: dict[str, Any], schema: Any, naive: str) -> dict[str, Any]:
        if self.mode != "serialization" or "format" not in written or schema.get("tz_constraint") == "aware":
            return written
        name = written["format"]
        others = {key: value for key, value in written.items() if key != "format"}
        return {**others, "anyOf": [{"format": name}, {"pattern": f"^{naive}$"}]}


def dump(adapter: TypeAdapter[Any], value: object, mode: Mode) -> str:
    """Return the object as JSON text for the mode; raise PydanticSerializationError if it cannot be written."""
    if mode == "serialization":
        return _dump(adapter, value, mode, keep_serializers=True)
    try:
        return _dump(adapter, value, mode, keep_serializers=False)
    except PydanticSerializationError:  # Pydantic cannot write this type without the custom serializer
        return _dump(adapter, value, mode, keep_serializers=True)


def _dump(adapter: TypeAdapter[Any], value: object, mode: Mode, *, keep_serializers: bool) -> str:
    rewritten = _rewrite_schema(adapter.core_schema, mode, keep_serializers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the judge reports values that do not have the declared type
        text = _serializer(rewritten).to_json(value, by_alias=True, round_trip=mode == "validation")
    return text.decode()


def _serializer(schema: core_schema.CoreSchema) -> SchemaSerializer:
    try:
        return SchemaSerializer(schema, None, _use_prebuilt=False)
    except TypeError:  # pydantic-core before 2.34 neither has nor needs the argument
        return SchemaSerializer(schema, None)


def _rewrite_schema(node: Any, mode: Mode, keep_serializers: bool) -> Any:
    """Return a core schema whose serializer writes JSON for the mode, including secrets."""
    if isinstance(node, list | tuple):
        return type(node)([_rewrite_schema(part, mode, keep_serializers) for part in node])
    if not isinstance(node, Mapping):
        return node
    changed = {
        name: part if name in _VALUES else _rewrite_schema(part, mode, keep_serializers) for name, part in node.items()
    }
    serialization = node.get("serialization")
    if isinstance(serialization, Mapping) and serialization.get("type") in _FUNCTIONS:
        function = serialization["function"]
        if mode == "validation" and not keep_serializers and _is_custom(function):
            del changed["serialization"]
        elif not _is_custom(function) and serialization["type"] == "function-plain":
            changed["serialization"] = {**serialization, "function": _with_secrets(function, mode)}
    if mode == "validation" and node.get("type") in _FIELDS:
        _use_validation_alias(changed)
    config = node.get("config")
    if mode == "validation" and isinstance(config, Mapping):
        # the settings `ser_json_…` affect only serialization, not the JSON Schema for validation
        kept = {name: value for name, value in config.items() if not name.startswith("ser_json_")}
        changed["config"] = {**kept, "ser_json_bytes": config.get("val_json_bytes", "utf8")}
    return changed


def _use_validation_alias(field: dict[str, Any]) -> None:
    """Change a field so that it is written under its validation alias, even if it is excluded from serialization."""
    for name in ("serialization_alias", "serialization_exclude", "serialization_exclude_if"):
        field.pop(name, None)
    alias = _name_in_schema(field.get("validation_alias"))
    if alias is not None:
        field["serialization_alias"] = alias


def _name_in_schema(alias: Any) -> str | None:
    """Return the first alias that is not a path, as used in the JSON Schema; None if the field has no such alias."""
    if isinstance(alias, str):
        return alias
    paths = alias if isinstance(alias, list) else []
    return next((path[0] for path in paths if isinstance(path, list) and len(path) == 1), None)


def _is_custom(function: Callable[..., Any]) -> bool:
    """Return whether a serializer is defined outside of Pydantic."""
    while isinstance(function, functools.partial):
        function = function.func
    package = str(getattr(function, "__module__", None)).partition(".")[0]
    return package not in {"pydantic", "pydantic_core"}


def _with_secrets(function: Callable[..., Any], mode: Mode) -> Callable[..., Any]:
    def write(value: Any, *rest: Any) -> Any:
        secret = _secret(value)
        if secret is _NO_SECRET:
            return function(value, *rest)
        if mode == "validation":
            return secret
        # Pydantic's ten asterisks may violate a length limit, and the secret itself must not be recorded
        return "*" * len(secret) if isinstance(secret, str | bytes) else function(value, *rest)

    return write


def _secret(value: object) -> object:
    if isinstance(value, Secret | SecretStr | SecretBytes):
        return cast("Any", value).get_secret_value()
    return _NO_SECRET
