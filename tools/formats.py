"""Build the published JSON Schemas from the types; `python -m tools.formats` writes the changed ones."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints, is_typeddict

import msgspec
from msgspec import NODEFAULT, Struct, structs

from pytest_jsbench.core.generations import Completion, Declined, Sent
from pytest_jsbench.engines.presets import ProviderPreset
from pytest_jsbench.lab.probe.report import SCHEMA_VERSION as PROBE_VERSION
from pytest_jsbench.lab.probe.report import ProbeReport
from pytest_jsbench.metrics.attempt_groups import AttemptGroups
from pytest_jsbench.metrics.case_outcomes import CaseOutcome
from pytest_jsbench.metrics.figure import SUM
from pytest_jsbench.metrics.figures import RATES, TIMES, TOKENS
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.prices import Costs
from pytest_jsbench.records import metadata
from pytest_jsbench.records.journal import Header
from pytest_jsbench.records.metadata import (
    OMITTED_IF_EMPTY,
    OMITTED_IF_UNKNOWN,
    OMITTED_IN_VARIANT,
    MetadataParts,
    RunMetadata,
)
from pytest_jsbench.records.records import RECORDS_VERSION, Record
from pytest_jsbench.reports.history import HISTORY_VERSION, HistoryLine, NamedRun
from pytest_jsbench.reports.run_json import RUN_VERSION, FinishedRun, RunFile, VariantFigures
from pytest_jsbench.verdicts import Verdict

FOLDER = Path(__file__).parents[1] / "pytest_jsbench" / "formats"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Fields that only the process that created the value needs.
IN_MEMORY = {(Completion, "server"), (Declined, "server"), (Sent, "params"), (Verdict, "instance")}
#: Fields of dataclasses that are omitted at their default; a Struct defines this itself.
ABSENT = {(RunMetadata, name) for name in (*OMITTED_IF_EMPTY, *OMITTED_IF_UNKNOWN, "entry")}
#: Types with a definition of their own; all other types are inlined.
NAMED = {
    **{name: name.lower() for name in ("Completion", "Declined", "Failed", "Decided", "Timing", "Usage", "Sent")},
    "Verdict": "verdict",
    "RunMetadata": "variant",
}

_FIELD = re.compile(r"((?:^ *#: .*\n)*)^    (\w+): ", re.MULTILINE)
_WORDS = {"None": "null", "True": "true", "False": "false"}


@functools.cache
def descriptions(kind: Any) -> Mapping[str, str]:
    """Return the description of each field from its comment, or else from the docstring of its type."""
    comments: dict[str, str] = {}
    for each in reversed(kind.__mro__) if not is_typeddict(kind) else _typed_dicts(kind):
        if each.__module__.startswith("pytest_jsbench"):
            source = inspect.getsource(each)
            found = {name: " ".join(re.findall("#: (.*)", comment)) for comment, name in _FIELD.findall(source)}
            comments |= {name: comment for name, comment in found.items() if comment}
    return {name: sentence(comment) for name, comment in comments.items()}


def _typed_dicts(kind: Any) -> list[Any]:
    """Return a TypedDict and those of its module that it may extend; before Python 3.12 its bases are unknown."""
    near = [each for each in vars(inspect.getmodule(kind)).values() if is_typeddict(each)]
    return [*(each for each in near if each.__annotations__.items() < kind.__annotations__.items()), kind]


def sentence(text: str) -> str:
    """Convert a comment about Python values to a sentence about JSON values."""
    text = re.sub(r"\b(None|True|False)\b", lambda word: _WORDS[word[0]], " ".join(text.split()))
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def always_there(kind: Any) -> list[str]:
    """Return the fields that are always written."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        given = [each for each in structs.fields(kind) if each.default is NODEFAULT]
        shortened = kind.__struct_config__.omit_defaults  # empty objects are omitted too
        return [each.encode_name for each in given if not (shortened and each.default_factory is dict)]
    return [each.name for each in fields(kind) if (kind, each.name) not in ABSENT]


class Formats:
    """Builder of JSON Schemas for types; named types are under `$defs`."""

    def __init__(self, *kinds: Any) -> None:
        self._kinds: dict[str, Any] = {}
        _, self._components = msgspec.json.schema_components(
            [*kinds, MetadataParts], schema_hook=lambda _: {"title": "any"}, ref_template="#/$defs/{name}"
        )
        pending = [*kinds, MetadataParts]
        while pending:
            kind = pending.pop()
            for part in _parts(kind):
                if part.__name__ not in self._kinds:
                    self._kinds[part.__name__] = part
                    pending += get_type_hints(part, include_extras=True).values()

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the JSON Schema of an object of this type."""
        schema = dict(self._components[kind.__name__])
        comments = descriptions(kind)
        by_name = schema["properties"]
        names = {each.name: each.encode_name for each in structs.fields(kind)} if issubclass(kind, Struct) else {}
        properties = {}
        if tag := getattr(getattr(kind, "__struct_config__", None), "tag", None):
            properties["type"] = {"const": tag, "description": sentence(kind.__doc__.strip().splitlines()[0])}
        for name in get_type_hints(kind):
            if (kind, name) in IN_MEMORY:
                continue
            place = names.get(name, name)
            field = self._inlined(by_name[place])
            described = comments.get(name) or field.get("description")
            assert described, f"{kind.__name__}.{name} needs a comment"
            properties[place] = {
                **{key: value for key, value in field.items() if key != "default"},
                "description": described,
            }
        there = schema.get("required", []) if is_typeddict(kind) else always_there(kind)
        required = [*(["type"] if tag else []), *(name for name in properties if name in there)]
        return {"type": "object", **({"required": required} if required else {}), "properties": properties}

    def part(self, kind: Any) -> dict[str, Any]:
        """Return the JSON Schema of each field of a type, without descriptions."""
        properties: dict[str, Any] = self._inlined(self._components[kind.__name__]["properties"])
        return properties

    def _inlined(self, schema: Any) -> Any:
        """Return the schema with references replaced by the types, except for named ones."""
        if isinstance(schema, list):
            return [self._inlined(each) for each in schema]
        if not isinstance(schema, Mapping):
            return schema
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in NAMED:
                return {"$ref": f"#/$defs/{NAMED[name]}"}
            if "enum" in self._components[name]:
                kind = self._kinds[name]
                members = schema.get("enum") or [each.value for each in kind]
                return {"enum": members, "description": sentence(kind.__doc__)}
            return self.of(self._kinds[name])
        kept = {key: self._inlined(value) for key, value in schema.items() if key != "title"}
        if kept.get("items") == {}:
            del kept["items"]
        return of_two_types(kept)


def _parts(hint: Any) -> list[Any]:
    """Return the types of this package in a type hint."""
    if isinstance(hint, type) and hint.__module__.startswith("pytest_jsbench") and hasattr(hint, "__annotations__"):
        return [hint]
    return [part for each in getattr(hint, "__args__", ()) for part in _parts(each)]


def head(name: str, title: str, docstring: str | None) -> dict[str, Any]:
    """Return the first fields of a published schema, with the docstring of a type as its description."""
    described = " ".join((docstring or "").split())
    return {"$schema": DIALECT, "$id": f"urn:pytest-jsbench:{name}", "title": title, "description": described}


def records() -> dict[str, Any]:
    """Return the JSON Schema of a line of records.jsonl."""
    made = Formats(Record, RunMetadata)
    run = made.of(RunMetadata)
    parts = made.part(MetadataParts)
    for name, part in parts.items():
        run["properties"][name] = {**part, "description": run["properties"][name]["description"]}
    run["properties"]["variants"]["minItems"] = 1
    variant = {name: {"$ref": f"#/$defs/run/properties/{name}"} for name in metadata._OWN}
    required = [name for name in variant if name not in OMITTED_IN_VARIANT]
    header = Formats(Header).of(Header)
    header["properties"]["run"] |= {"$ref": "#/$defs/run"}
    described = "The first line is the header, each other line one attempt. Readers ignore what is new."
    return {
        **head(f"records:{RECORDS_VERSION}", "A line of records.jsonl", described),
        "oneOf": [
            {"title": "header", **header},
            {"title": "record", **made.of(Record)},
        ],
        "$defs": {
            **{place: made.of(made._kinds[name]) for name, place in NAMED.items() if name != "RunMetadata"},
            "run": run,
            "variant": {"type": "object", "required": required, "properties": variant},
        },
    }


_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
_RATE = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_AMOUNT = {"type": ["number", "null"], "minimum": 0, "maximum": 1e15}
_OCCURRED = ("fault_counts", "code_counts", "trivial_counts")


def _members_of(group: str) -> dict[str, Any]:
    """Return the JSON Schema of the members of a group of figures."""
    if group == "fields":  # counts and rates
        return dict(_AMOUNT)
    if Metrics.computed[group].row.is_rate:
        return dict(_RATE)
    return {**_COUNT, "minimum": int(group in _OCCURRED)}


#: Figures that are sums with a unit, or ratios of sums.
_AMOUNTS = frozenset(name for name, each in Metrics.computed.items() if each.row.kind is SUM and each.row.unit)


def metrics() -> dict[str, Any]:
    """Return the JSON Schema of a run's metrics, with descriptions from the comments."""
    comments = {name: sentence(computed.__doc__ or "") for name, computed in Metrics.computed.items()}
    properties: dict[str, Any] = {}
    nothing = AttemptGroups(attempts=(), planned=(), costs=Costs(), missing_reasons={})
    always = Metrics(nothing).to_dict().keys()
    for name, value in Metrics(nothing).to_dict(every=True).items():
        time, _, part = name.rpartition("_")
        field = dict(_COUNT)
        if isinstance(value, dict):
            members = _members_of(name)
            field = {"type": "object", "additionalProperties": members}
            if name.startswith("failure_"):
                field["required"] = list(value)
        elif name.removesuffix("_ci_low").removesuffix("_ci_high") in RATES:
            field = dict(_RATE)
        elif name in _AMOUNTS or (time in TIMES and part != "count"):
            unit = {"description": f"In {TIMES[time].unit}."} if time in TIMES else {}
            field = {**_AMOUNT, **unit}
        elif name in TOKENS:
            field = {**_COUNT, "type": ["integer", "null"]}
        properties[name] = {**field, **({"description": comments[name]} if name in comments else {})}
    words = "docs/metrics.md has each formula. A rate over nothing is null, never 0."
    return {"type": "object", "description": words, "required": [*always], "properties": properties}


def run() -> dict[str, Any]:
    """Return the JSON Schema of run.json, whose header, metrics and outcomes have their own types."""
    made = Formats(RunFile, FinishedRun, CaseOutcome)
    file, figures, outcome = made.of(RunFile), made.of(VariantFigures), made.of(CaseOutcome)
    file["required"].remove("cases")
    for values in outcome["properties"]["values"]["items"]["anyOf"]:
        if "properties" in values:  # run.json omits the differences
            del values["properties"]["differences"]
            values["required"].remove("differences")
    properties, metrics_of = file["properties"], {"metrics": {"$ref": "#/$defs/metrics"}}
    properties["metrics"] |= metrics_of["metrics"]
    task = {"type": "object", "required": ["metrics"], "properties": metrics_of}
    properties["tasks"]["additionalProperties"] = task
    properties["cases"]["additionalProperties"] = outcome
    properties["run"] |= {"$ref": "#/$defs/run"}
    properties["variants"]["additionalProperties"] = {"$ref": "#/$defs/figures"}
    pair, compared = properties["comparisons"]["items"], properties["baseline"]["anyOf"][0]
    own = [name for name in pair["properties"] if name not in compared["properties"]]
    required = [name for name in own if name in pair["required"]]
    pair |= {"required": required, "properties": {name: pair["properties"][name] for name in own}}
    figures["properties"] = {name: {"$ref": f"#/properties/{name}"} for name in figures["properties"]} | metrics_of
    parts: dict[str, Any] = {"figures": {**figures, "description": sentence(VariantFigures.__doc__ or "")}}
    finished: dict[str, Any] = made.of(FinishedRun)
    nothing: dict[str, Any] = {"properties": {}, "required": []}
    for name, added in (("run", finished), ("variant", nothing)):
        shared = records()["$defs"][name]
        described = {**added["properties"], **shared["properties"]}
        del described["plan"]
        there = [*added["required"], *(each for each in shared["required"] if each in described)]
        parts[name] = {"type": "object", "required": there, "properties": described}
    named = head(f"run:{RUN_VERSION}", "run.json", RunFile.__doc__)
    return {**named, **file, "$defs": {"metrics": metrics(), **parts}}


def history() -> dict[str, Any]:
    """Return the JSON Schema of a line of a history."""
    made = Formats(HistoryLine, NamedRun)
    line = made.of(HistoryLine)
    line["properties"]["run"] = {**made.of(NamedRun), "description": line["properties"]["run"]["description"]}
    return {**head(f"history:{HISTORY_VERSION}", "A line of history.jsonl", HistoryLine.__doc__), **line}


def evaluation() -> dict[str, Any]:
    """Return the JSON Schema of an evaluation file of any project."""
    from pydantic.json_schema import models_json_schema

    from pytest_jsbench.library.pydantic_models import EvalMetrics, EvalOutput

    _, made = models_json_schema([(EvalOutput, "validation")], ref_template="#/$defs/{model}")
    file, metrics = (_flat(made["$defs"][kind.__name__]) for kind in (EvalOutput, EvalMetrics))
    described = file["properties"]["metrics"]["description"]
    file["properties"]["metrics"] = {**metrics, "description": described}
    return {**file, **head(f"evaluation:{RUN_VERSION}", "Evaluation", EvalOutput.__doc__)}


def _flat(schema: Any) -> Any:
    """
    Return the schema without titles and defaults, with descriptions on one line and nullable
    scalars as two types.
    """
    if isinstance(schema, list):
        return [_flat(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        name: _flat(value)
        for name, value in schema.items()
        if name != "default" and (name, str) != ("title", type(value))
    }
    if isinstance(kept.get("description"), str):
        kept["description"] = " ".join(kept["description"].split())
    return of_two_types(kept)


def of_two_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a nullable scalar with a list of two types; any other schema unchanged."""
    match schema:
        case {"anyOf": [{"type": "string" | "number" | "integer" | "boolean" as kind, **bounds}, {"type": "null"}]}:
            others = {key: value for key, value in schema.items() if key != "anyOf"}
            return {"type": [kind, "null"], **{str(key): value for key, value in bounds.items()}, **others}
    return schema


def probe() -> dict[str, Any]:
    """Return the JSON Schema of a probe's report."""
    return {**head(f"probe:{PROBE_VERSION}", "Probe", ProbeReport.__doc__), **Formats(ProbeReport).of(ProbeReport)}


def presets() -> dict[str, Any]:
    """Return the JSON Schema of a table of presets, as in presets.toml."""
    preset = Formats(ProviderPreset).of(ProviderPreset)
    del preset["properties"]["name"]  # the key of its table
    preset["required"] = [field.name for field in structs.fields(ProviderPreset) if field.required][1:]
    for field in structs.fields(ProviderPreset):
        if isinstance(field.default, str | bool):
            default = field.default if isinstance(field.default, str) else json.dumps(field.default)
            preset["properties"][field.name]["description"] += f" Default: {default}."
    return {
        "$schema": DIALECT,
        "title": "Presets of pytest-jsbench",
        "description": "Providers that speak OpenAI's API, by the names under which --jsbench-engine takes them.",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/preset"},
        "propertyNames": {"pattern": "^[a-z][a-z0-9-]*$"},
        "$defs": {"preset": {**preset, "additionalProperties": False}},
    }


PUBLISHED = {
    "records": records,
    "run": run,
    "history": history,
    "presets": presets,
    "probe": probe,
    "evaluation": evaluation,
}


def text_of(name: str) -> str:
    """Return the content of a published JSON Schema's file."""
    return json.dumps(PUBLISHED[name](), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the file of each published JSON Schema."""
    for name in PUBLISHED:
        (FOLDER / f"{name}.schema.json").write_text(text_of(name), "utf-8")


if __name__ == "__main__":
    main()
