"""Provide the published JSON Schemas of the files that jsbench writes, and check data against them."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.text import json_text, printable

if TYPE_CHECKING:
    import jsonschema_rs

#: Text in the validator's messages that stands for the invalid value.
_VALUE = "the value"
_LONGEST_VALUE = 40
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Format:
    """
    A published JSON Schema for a kind of file, or a part of the schema.

    By default, missing fields are accepted, since programs that read the file may have default values.
    """

    name: str
    part: tuple[str | int, ...] = ()

    def check(self, data: object) -> None:
        """Raise RecordError with the first problem if the data do not conform to the schema."""
        for problem in self.problems(data):
            raise RecordError(problem)

    def problems(self, data: object, *, complete: bool = False) -> Iterator[str]:
        """
        Yield a sentence for each violation of the schema: the place in the data, the value, and the expectation.

        If `complete` is true, a missing required field is a violation too.
        """
        validator = _validator(self, complete)
        try:
            if validator.is_valid(data):
                return
            for error in validator.iter_errors(data):
                yield _sentence(_find_innermost(error), data)
        except UnicodeEncodeError:  # the validator cannot read a lone surrogate, which JSON may contain
            text = _LONE.sub(lambda lone: chr(ord(lone[0]) + 0x100000), json.dumps(data, ensure_ascii=False))
            yield from self.problems(json.loads(text), complete=complete)
        except (ValueError, TypeError, RecursionError) as problem:  # a value that is not JSON
            yield printable(str(problem))


EVALUATION = Format("evaluation")
#: Format of run.json.
RUN = Format("run")
#: Format of the metrics in run.json.
METRICS = Format("run", ("$defs", "metrics"))


@functools.cache
def _validator(form: Format, complete: bool) -> jsonschema_rs.Validator:
    import jsonschema_rs  # slow to import, and most runs check no file

    whole = load_format_schema(form.name)
    schema: Any = whole
    for step in form.part:
        schema = schema[step]
    schema = {**schema, "$defs": whole.get("$defs", {})}
    return jsonschema_rs.Draft202012Validator(schema if complete else _without_required(schema), mask=_VALUE)


@functools.cache
def load_format_schema(name: str) -> dict[str, Any]:
    """Return the published JSON Schema with this name, such as `run`."""
    schema: dict[str, Any] = json.loads(
        files("pytest_jsbench.formats").joinpath(f"{name}.schema.json").read_text("utf-8")
    )
    return schema


def _without_required(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_required(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_required(part)
        for key, part in schema.items()
        if not ((key == "required" and isinstance(part, list)) or key == "dependentRequired")
    }


def _find_innermost(error: jsonschema_rs.ValidationError) -> jsonschema_rs.ValidationError:
    """Return the error itself, or the error in the best matching branch if the error is at an anyOf or oneOf."""
    here = len(error.instance_path)
    for branch in getattr(error.kind, "context", ()):
        if not any(len(problem.instance_path) == here or problem.kind.name == "const" for problem in branch):
            return _find_innermost(branch[0])
    return error


def _sentence(error: jsonschema_rs.ValidationError, data: Any) -> str:
    value: Any = data
    for step in error.instance_path:
        # the validator returns a name of digits as a number
        value = value[int(step)] if isinstance(value, list) else value[str(step)]
    place = ".".join(map(str, error.instance_path)) or "the document"
    if error.kind.name == "required":
        missing = printable(error.kind.as_dict()["property"], _LONGEST_VALUE)
        return f"{printable(place, 100, cut='middle')} has no {missing}"
    kind = "array" if isinstance(value, list) else "object"
    text = json_text(value) if isinstance(value, str | int | float | bool | None) else f"an {kind}"
    words = error.message.removeprefix(f"{_VALUE} ").replace(_VALUE, "it")
    if error.kind.name in {"anyOf", "oneOf"}:
        words = "matches none of the allowed types"
    return f"{printable(place, 100, cut='middle')} is {printable(text, _LONGEST_VALUE)}, which {printable(words, 200)}"
