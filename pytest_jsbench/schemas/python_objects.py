"""
Write objects of Python types as JSON, in the form that one of the type's two JSON Schemas describes.

Pydantic dumps the form of serialization only. The form of validation is what the type itself would read: it has the
names for reading, no computed fields, excluded fields too, and values before a serializer changes them.
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
#: Fields of a core schema that contain values, not core schemas.
_VALUES = frozenset({"metadata", "config", "default", "expected", "validation_alias", "serialization"})
_NO_SECRET = object()
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"


class SchemaWriter(GenerateJsonSchema):
    """Pydantic's writer of JSON Schemas, except for serializers whose result has no declared type."""

    def ser_schema(self, schema: Any) -> dict[str, Any] | None:
        """Return the schema of a serializer's result: any value, if a project's serializer declares none."""
        # Pydantic would describe the value before serialization, which the result need not be
        if schema["type"] in _FUNCTIONS and schema.get("return_schema") is None and _is_projects(schema["function"]):
            return {}
        if schema["type"] == "function-plain" and getattr(schema["function"], "__name__", "") == "_serialize_secret":
            return {"type": "string"}  # Secret[…] is written as stars, whatever the type of its value
        return super().ser_schema(schema)

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a date and time; what is written may have no time zone, which the format requires."""
        return self._zoned(super().datetime_schema(schema), schema, f"{_DATE}T{_TIME}")

    def time_schema(self, schema: Any) -> dict[str, Any]:
        """Return the schema of a time; what is written may have no time zone, which the format requires."""
        return self._zoned(super().time_schema(schema), schema, _TIME)

    def _zoned(self, written: dict[str, Any], schema: Any, naive: str) -> dict[str, Any]:
        if self.mode != "serialization" or "format" not in written or schema.get("tz_constraint") == "aware":
            return written
        name = written["format"]
        others = {key: value for key, value in written.items() if key != "format"}
        return {**others, "anyOf": [{"format": name}, {"pattern": f"^{naive}$"}]}


def dump(adapter: TypeAdapter[Any], value: object, mode: Mode) -> str:
    """Return the object as JSON text in the form of the mode; raise PydanticSerializationError if it has none."""
    if mode == "serialization":
        return _dump(adapter, value, mode, keep_serializers=True)
    try:
        return _dump(adapter, value, mode, keep_serializers=False)
    except PydanticSerializationError:  # a type of the project's own, which only its serializer can write
        return _dump(adapter, value, mode, keep_serializers=True)


def _dump(adapter: TypeAdapter[Any], value: object, mode: Mode, *, keep_serializers: bool) -> str:
    rewritten = _rewritten(adapter.core_schema, mode, keep_serializers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a value of another type than declared is named by the judge
        text = _serializer(rewritten).to_json(value, by_alias=True, round_trip=mode == "validation")
    return text.decode()


def _serializer(schema: core_schema.CoreSchema) -> SchemaSerializer:
    try:
        return SchemaSerializer(schema, None, _use_prebuilt=False)
    except TypeError:  # before pydantic-core 2.34, which never uses the serializers of inner classes
        return SchemaSerializer(schema, None)


def _rewritten(node: Any, mode: Mode, keep_serializers: bool) -> Any:
    """Return a core schema whose serializer writes the form of the mode, with secrets as texts of their length."""
    if isinstance(node, list | tuple):
        return type(node)([_rewritten(part, mode, keep_serializers) for part in node])
    if not isinstance(node, Mapping):
        return node
    changed = {
        name: part if name in _VALUES else _rewritten(part, mode, keep_serializers) for name, part in node.items()
    }
    serialization = node.get("serialization")
    if isinstance(serialization, Mapping) and serialization.get("type") in _FUNCTIONS:
        function = serialization["function"]
        if mode == "validation" and not keep_serializers and _is_projects(function):
            del changed["serialization"]
        elif not _is_projects(function) and serialization["type"] == "function-plain":
            changed["serialization"] = {**serialization, "function": _writing_secrets(function, mode)}
    if mode == "validation" and node.get("type") in _FIELDS:
        _read_again(changed)
    config = node.get("config")
    if mode == "validation" and isinstance(config, Mapping):
        # formats of writing only; the schema of validation does not depend on them
        kept = {name: value for name, value in config.items() if not name.startswith("ser_json_")}
        changed["config"] = {**kept, "ser_json_bytes": config.get("val_json_bytes", "utf8")}
    return changed


def _read_again(field: dict[str, Any]) -> None:
    """Change a field so that it is written under the name by which the type reads it, even if it is excluded."""
    for name in ("serialization_alias", "serialization_exclude", "serialization_exclude_if"):
        field.pop(name, None)
    alias = _schema_name(field.get("validation_alias"))
    if alias is not None:
        field["serialization_alias"] = alias


def _schema_name(alias: Any) -> str | None:
    """Return the name in the JSON Schema: the first alias that is no path; None for the field's own name."""
    if isinstance(alias, str):
        return alias
    paths = alias if isinstance(alias, list) else []
    return next((path[0] for path in paths if isinstance(path, list) and len(path) == 1), None)


def _is_projects(function: Callable[..., Any]) -> bool:
    """Return whether a serializer is a project's own, and not one of Pydantic's types'."""
    while isinstance(function, functools.partial):
        function = function.func
    package = str(getattr(function, "__module__", None)).partition(".")[0]
    return package not in {"pydantic", "pydantic_core"}


def _writing_secrets(function: Callable[..., Any], mode: Mode) -> Callable[..., Any]:
    def write(value: Any, *rest: Any) -> Any:
        secret = _secret(value)
        if secret is _NO_SECRET:
            return function(value, *rest)
        if mode == "validation":
            return secret
        # Pydantic's ten stars break a bound of the length; the secret itself belongs in no record
        return "*" * len(secret) if isinstance(secret, str | bytes) else function(value, *rest)

    return write


def _secret(value: object) -> object:
    if isinstance(value, Secret | SecretStr | SecretBytes):
        return cast("Any", value).get_secret_value()
    return _NO_SECRET
