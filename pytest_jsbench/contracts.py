"""Contracts: what one answer must conform to, and what Python object it stands for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import GenericAlias, UnionType
from typing import Any

from pytest_jsbench import typeschemas
from pytest_jsbench.cases import Schema
from pytest_jsbench.errors import ContractError

#: whatever a contract can be made of: a JSON Schema, a type, or the path of a schema file
SchemaSource = Schema | type[Any] | GenericAlias | UnionType | str | Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A JSON Schema, and the Python type that it was made of, where there is one."""

    schema: Schema
    described: Any = None

    @classmethod
    def of(cls, source: object, *, folder: Path) -> Contract:
        """
        The contract that a schema, a type, or the path of a schema file stands for; ContractError for anything else.

        A relative path starts at the folder.
        """
        if isinstance(source, bool | Mapping):
            return cls(schema=source)
        if isinstance(source, str) and source.lstrip().startswith("{"):
            raise ContractError("a text is the path of a schema file; of JSON text give what json.loads() makes of it")
        if isinstance(source, str | Path):
            return cls(schema=_read(folder / source))
        if typeschemas.is_described(source):
            return cls(schema=typeschemas.schema_of(source), described=source)
        message = (
            f"no schema: {typeschemas.name_of(source)} is a {type(source).__name__}; expected a JSON Schema, "
            "a Pydantic model, a dataclass, a TypedDict, or the path of a schema file"
        )
        raise ContractError(message)

    def parse(self, instance: object, *, broken: str = "") -> object:
        """
        The instance as an object of the type, or as it is; ContractError where the type refuses it.

        `broken` says in which way the instance breaks the JSON Schema; empty where it conforms.
        """
        if self.described is None:
            return instance
        __tracebackhide__ = True
        try:
            return typeschemas.parse(self.described, instance)
        except ValueError as error:
            name, reasons = typeschemas.name_of(self.described), _reasons(error)
        # outside of the handler: the type's own traceback is a hundred lines of a library's
        conforms = (
            f"does not conform to the JSON Schema of {name} ({broken})"
            if broken
            else (f"conforms to the JSON Schema of {name}")
        )
        message = f"{conforms}, and {name} refuses it: {reasons}"
        raise ContractError(message)


def _read(path: Path) -> Schema:
    try:
        schema = json.loads(path.read_text("utf-8"))
    except OSError as error:
        message = (
            f"cannot read the schema {path}: {error.strerror or error}; a relative path starts at the folder "
            "of the test (for assert_conforms at the working folder)"
        )
        raise ContractError(message) from error
    except (ValueError, RecursionError) as error:
        message = f"the schema {path} is not JSON: {error}"
        raise ContractError(message) from error
    if isinstance(schema, bool | dict):
        return schema
    message = f"the schema {path} is a JSON {type(schema).__name__}; expected an object, true or false"
    raise ContractError(message)


def _reasons(error: ValueError) -> str:
    """Pydantic's reasons on one line, without its addresses of web pages."""
    listed = getattr(error, "errors", None)
    if listed is None:
        return str(error).partition("\n")[0]
    return "; ".join(f"{'.'.join(map(str, each['loc'])) or '$'}: {each['msg']}" for each in listed()[:3])
