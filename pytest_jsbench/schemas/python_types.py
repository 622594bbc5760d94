"""Get JSON Schemas of Python types (Pydantic models, dataclasses, TypedDicts), and convert between JSON and objects."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import json
import typing
from typing import TYPE_CHECKING, Any, TypeGuard

from pytest_jsbench.core.errors import ContractError, MissingRequirement

if TYPE_CHECKING:
    from types import TracebackType

    from pydantic import TypeAdapter

    from pytest_jsbench.schemas.modes import Mode


def is_described(described: object) -> bool:
    """Return whether a type has a JSON Schema: a Pydantic model, dataclass, TypedDict, or a type like `list[Model]`."""
    return typing.get_origin(described) is not None or is_model(described)


def is_model(described: object) -> TypeGuard[type]:
    """Return whether an object is a Pydantic model, a dataclass or a TypedDict class."""
    return isinstance(described, type) and (
        hasattr(described, "__pydantic_core_schema__")
        or dataclasses.is_dataclass(described)
        # not `is_typeddict`: on some Python versions, that of `typing` rejects a TypedDict of `typing_extensions`
        or (issubclass(described, dict) and hasattr(described, "__total__"))
    )


def require_pydantic(purpose: str) -> None:
    """Raise MissingRequirement with the command that installs Pydantic, if it is not installed."""
    if importlib.util.find_spec("pydantic") is None:
        raise MissingRequirement(f"{purpose} needs the package pydantic: pip install 'pytest-jsbench[pydantic]'")


def schema_of(described: Any, mode: Mode = "validation") -> dict[str, Any]:
    """Return the type's JSON Schema for validation or serialization; raise ContractError if it has none."""
    adapter = _adapter(described)
    from pytest_jsbench.schemas.python_objects import SchemaWriter

    try:
        schema: dict[str, Any] = adapter.json_schema(mode=mode, schema_generator=SchemaWriter)
    except Exception as error:
        raise _no_schema(described, error) from error
    return schema


def tool_of(described: Any, name: str) -> dict[str, Any]:
    """
    Return the tool that a function or a type defines, with its docstring and the schema of its arguments.

    Raise ContractError if Pydantic has no schema for an argument.
    """
    schema = schema_of(described)
    text = described.__doc__ if inspect.isfunction(described) else schema.get("description")
    description = inspect.cleandoc(text) if isinstance(text, str) else ""
    return {"name": name, "description": description, "parameters": schema}


def parse(described: Any, instance: object) -> object:
    """
    Convert the instance to an object of the type.

    Raise ValueError if the type rejects the instance; this is possible even if its JSON Schema accepts the instance.
    """
    __tracebackhide__ = True
    adapter = _adapter(described)
    try:
        # validate as JSON: a strict model accepts a date from JSON text, but not from a Python string
        return adapter.validate_json(json.dumps(instance))
    except ValueError:
        raise
    except Exception as error:  # noqa: BLE001  an error in the type's own validator; show its traceback only
        raise error.with_traceback(_trim_traceback(error.__traceback__)) from None


def _trim_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the first line outside this module and Pydantic; None if there is no such line."""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__"))
        if module != __name__ and module.partition(".")[0] != "pydantic":
            return traceback
        traceback = traceback.tb_next
    return None


def is_object(value: object) -> bool:
    """Return whether a value is or contains a Python object without a JSON equivalent, such as a model instance."""
    try:
        json.dumps(value)
    except TypeError:
        return True
    except (ValueError, RecursionError):
        return False
    return False


def to_json(value: object, described: Any = None, mode: Mode = "serialization") -> str:
    """
    Return an object as JSON text that conforms to its type's JSON Schema for the mode.

    By default, the type is the object's class; pass `described` for objects such as a list of models.
    """
    adapter = _adapter(type(value) if described is None or is_described(type(value)) else described)
    from pytest_jsbench.schemas.python_objects import dump

    try:
        return dump(adapter, value, mode)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        message = f"the {name_of(type(value))} cannot be written as JSON: {type(error).__name__}: {reason}"
        raise ContractError(message) from error


def name_of(described: Any) -> str:
    """Return the type's name for messages."""
    return str(getattr(described, "__name__", described))


def _adapter(described: Any) -> TypeAdapter[Any]:
    require_pydantic(f"the schema of {name_of(described)}")
    from pydantic import TypeAdapter

    try:
        return TypeAdapter(described)
    except Exception as error:
        raise _no_schema(described, error) from error


def _no_schema(described: Any, error: Exception) -> ContractError:
    reason = str(error).partition("\n")[0]
    return ContractError(f"{name_of(described)} has no JSON Schema: {type(error).__name__}: {reason}")
