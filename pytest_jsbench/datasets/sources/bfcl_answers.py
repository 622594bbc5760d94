"""
Convert the acceptable arguments of a BFCL call to the schema of an expected call, by the rules of bfcl-eval's checker.

Each argument has a list of acceptable values; an empty text in the list means that the argument may be absent. Texts
are compared loosely, also in lists and objects, unless the acceptable values are of another type than the parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import as_mapping, json_type
from pytest_jsbench.core.loose_text import loosen
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import ExpectedCall
from pytest_jsbench.schemas.dialects import DRAFT_2020_12

#: Acceptable value of an argument that may be absent.
_ABSENT = ""
_LISTS = ("array", "tuple")
#: Python types of the values of BFCL's types that contain texts.
_WITH_TEXTS: Mapping[str, type] = {"string": str, "any": str, "dict": dict, **dict.fromkeys(_LISTS, list)}


def expect_call(name: str, arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> ExpectedCall:
    """Return the expected call with these acceptable arguments, of a function with these parameters."""
    properties = _properties(parameters)
    loose = tuple(
        argument
        for argument, values in arguments.items()
        if _is_loose(_read_values(argument, values), properties.get(argument, {}))
    )
    schema = {
        "$schema": DRAFT_2020_12.uri,
        "type": "object",
        "properties": {
            argument: _schema_of_values(values, properties.get(argument, {}), is_loose=argument in loose)
            for argument, values in arguments.items()
        },
        "required": [argument for argument, values in arguments.items() if _ABSENT not in values],
        "additionalProperties": False,
    }
    return ExpectedCall(name=name, arguments=schema, loose=loose)


def _properties(parameters: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return {name: as_mapping(each) for name, each in as_mapping(parameters.get("properties")).items()}


def _read_values(argument: str, values: object) -> list[Any]:
    if isinstance(values, list):
        return values
    message = f"the acceptable values of '{printable(argument, 60)}' are a JSON {json_type(values)}; expected a list"
    raise Unreadable(message, reason="bad_row")


def _is_loose(values: list[Any], parameter: Mapping[str, Any]) -> bool:
    """Return whether texts are compared loosely: the first acceptable value has the type of the parameter."""
    first = next((value for value in values if value != _ABSENT), _ABSENT)
    return isinstance(first, _WITH_TEXTS.get(str(parameter.get("type")), ()))


def _schema_of_values(values: list[Any], parameter: Mapping[str, Any], *, is_loose: bool) -> bool | dict[str, Any]:
    """Return the schema of an argument with these acceptable values."""
    kind = parameter.get("type")
    if kind == "dict" and is_loose:
        return {"anyOf": [_schema_of_object(value) for value in values if isinstance(value, Mapping)]}
    if kind in _LISTS and is_loose:
        # an absent list may also be empty
        return {"anyOf": [_schema_of_list([] if value == _ABSENT else value) for value in values]}
    accepted = [value for value in values if value != _ABSENT or kind in ("string", "any")]
    if not accepted:  # the argument must be absent
        return False
    return {"enum": loosen(accepted) if is_loose else accepted}


def _schema_of_list(value: Any) -> dict[str, Any]:
    """Return the schema of an acceptable list, in which an object has lists of acceptable values, too."""
    if not isinstance(value, list) or not any(isinstance(item, Mapping) for item in value):
        return {"const": loosen(value)}
    return {
        "type": "array",
        "prefixItems": [
            _schema_of_object(item) if isinstance(item, Mapping) else {"const": loosen(item)} for item in value
        ],
        "minItems": len(value),
        "maxItems": len(value),
    }


def _schema_of_object(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has a list of acceptable values for each of its members."""
    members = {str(name): _read_values(str(name), values) for name, values in value.items()}
    return {
        "type": "object",
        "properties": {name: {"enum": loosen(values)} for name, values in members.items()},
        "required": [name for name, values in members.items() if _ABSENT not in values],
        "additionalProperties": False,
    }


def find_contradiction(arguments: Mapping[str, Any], parameters: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """
    Return why no acceptable call can conform to the function's schema; an empty text if one can.

    Types and `enum` are checked, in which BFCL's rows contradict themselves.
    """
    required = parameters.get("required")
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    properties = _properties(schema)
    for argument in needed:
        if argument not in arguments:
            return f"'{printable(argument, 60)}' is required, and has no acceptable value"
    for argument, acceptable in arguments.items():
        values = _read_values(argument, acceptable)
        shown = printable(argument, 60)
        if argument not in properties:
            if _ABSENT not in values:
                return f"'{shown}' is not a parameter"
        elif not (_ABSENT in values and argument not in needed) and not any(
            _conforms(candidate, properties[argument]) for candidate in _candidates(values, properties[argument])
        ):
            return f"no acceptable value of '{shown}' has the declared type and is one of the declared values"
    return ""


def _candidates(values: list[Any], schema: Any) -> Iterator[Any]:
    """Yield acceptable values, and the values of an enumeration that differ from them only in loose text."""
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    for value in values:
        if isinstance(value, str):
            yield from (
                choice
                for choice in (choices if isinstance(choices, list) else [])
                if isinstance(choice, str) and loosen(choice) == loosen(value)
            )
        yield value


def _conforms(value: Any, schema: Any) -> bool:
    """Return whether a value has the schema's type and is one of its values; also the items of a list."""
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    if kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            return False
    elif isinstance(kind, str) and json_type(value) != kind:
        return False
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        return False
    return not isinstance(value, list) or all(_conforms(item, schema.get("items")) for item in value)
