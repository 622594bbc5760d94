"""The published JSON Schemas of our files, and the check of a file against its schema."""

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

#: stands for the value in what the validator says of it
_VALUE = "the value"
_LONGEST_VALUE = 40
_LONE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Format:
    """A published JSON Schema, or a part of one; what it requires is left to whoever reads, who may know a default."""

    name: str
    part: tuple[str | int, ...] = ()

    def check(self, data: object) -> None:
        """RecordError names the first place that is not as it was published."""
        for problem in self.problems(data):
            raise RecordError(problem)

    def problems(self, data: object, *, complete: bool = False) -> Iterator[str]:
        """
        Name each place that is not as it was published, in a sentence with what was found and what was expected.

        `complete` also asks for what is required.
        """
        validator = _validator(self, complete)
        try:
            if validator.is_valid(data):
                return
            for error in validator.iter_errors(data):
                yield _sentence(_inmost(error), data)
        except UnicodeEncodeError:  # a lone surrogate, which JSON may hold and the validator cannot read
            text = _LONE.sub(lambda lone: chr(ord(lone[0]) + 0x100000), json.dumps(data, ensure_ascii=False))
            yield from self.problems(json.loads(text), complete=complete)
        except (ValueError, TypeError, RecursionError) as problem:  # what no JSON validator takes
            yield printable(str(problem))


EVALUATION = Format("evaluation")
#: the run.json of a run of ours
RUN = Format("run")
#: the figures of a run of ours
METRICS = Format("run", ("$defs", "metrics"))


@functools.cache
def _validator(form: Format, complete: bool) -> jsonschema_rs.Validator:
    import jsonschema_rs  # it takes its time, and most runs read nothing

    whole = published(form.name)
    schema: Any = whole
    for step in form.part:
        schema = schema[step]
    schema = {**schema, "$defs": whole.get("$defs", {})}
    return jsonschema_rs.Draft202012Validator(schema if complete else _without_required(schema), mask=_VALUE)


@functools.cache
def published(name: str) -> dict[str, Any]:
    """The JSON Schema of that name."""
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


def _inmost(error: jsonschema_rs.ValidationError) -> jsonschema_rs.ValidationError:
    """Where a value is none of several things: what is wrong with it as the one that it says it is."""
    here = len(error.instance_path)
    for branch in getattr(error.kind, "context", ()):
        if not any(len(problem.instance_path) == here or problem.kind.name == "const" for problem in branch):
            return _inmost(branch[0])
    return error


def _sentence(error: jsonschema_rs.ValidationError, data: Any) -> str:
    value: Any = data
    for step in error.instance_path:
        value = value[step]
    place = ".".join(map(str, error.instance_path)) or "the whole"
    if error.kind.name == "required":
        missing = printable(error.kind.as_dict()["property"], _LONGEST_VALUE)
        return f"{printable(place, 100, cut='middle')} has no {missing}"
    kind = "array" if isinstance(value, list) else "object"
    text = json_text(value) if isinstance(value, str | int | float | bool | None) else f"an {kind}"
    words = error.message.removeprefix(f"{_VALUE} ").replace(_VALUE, "it")
    if error.kind.name in {"anyOf", "oneOf"}:
        words = "is nothing that may stand there"
    return f"{printable(place, 100, cut='middle')} is {printable(text, _LONGEST_VALUE)}, which {printable(words, 200)}"
