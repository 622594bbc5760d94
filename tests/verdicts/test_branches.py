"""Test the nearest branch of a failed union with cases for which the right branch is known."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from pytest_jsbench.schemas.references import json_path
from pytest_jsbench.verdicts import Judge, Verdict
from tests.support.public_data import labelled, needs_labels

STRING = {"type": "string"}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


STEP = {"oneOf": [closed(["run"], run=STRING, name=STRING), closed(["uses"], uses=STRING, name=STRING)]}
WORKFLOW: dict[str, Any] = {
    "properties": {
        "jobs": {
            "additionalProperties": {"oneOf": [{"$ref": "#/$defs/normalJob"}, {"$ref": "#/$defs/reusableJob"}]},
        },
    },
    "$defs": {
        "normalJob": closed(
            ["runs-on"],
            **{"runs-on": {"anyOf": [STRING, {"type": "array", "items": STRING}]}},
            steps={"type": "array", "items": STEP},
            needs={"anyOf": [STRING, {"type": "array", "items": STRING}]},
        ),
        "reusableJob": closed(["uses"], uses=STRING, needs=STRING, **{"with": {"type": "object"}}),
    },
}
CIRCLE: dict[str, Any] = {
    "type": "array",
    "items": {
        "anyOf": [
            {"enum": ["checkout", "setup_remote_docker"]},
            closed(
                ["run"], run={"anyOf": [STRING, closed(["command"], command=STRING, background={"type": "boolean"})]}
            ),
            closed(
                ["save_cache"],
                save_cache=closed(["paths", "key"], paths={"type": "array", "items": STRING}, key=STRING),
            ),
            {"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {"type": "array"}},
        ]
    },
}
FIELD: dict[str, Any] = {
    "anyOf": [
        closed(
            ["field"],
            field=STRING,
            type={"enum": ["quantitative", "nominal"]},
            axis=closed([], grid={"type": "boolean"}),
        ),
        closed(["value"], value={"type": ["number", "string"]}),
    ]
}
CHART: dict[str, Any] = {
    "$ref": "#/definitions/Spec",
    "definitions": {
        "Spec": {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in ("Unit", "Layer", "Facet")]},
        "Mark": {"enum": ["bar", "line"]},
        "Unit": closed(
            ["mark"],
            mark={"anyOf": [{"$ref": "#/definitions/Mark"}, closed(["type"], type={"$ref": "#/definitions/Mark"})]},
            encoding=closed([], x=FIELD, y=FIELD),
            data={"type": "object"},
            title=STRING,
        ),
        "Layer": closed(
            ["layer"],
            layer={"type": "array", "items": {"anyOf": [{"$ref": f"#/definitions/{n}"} for n in ("Unit", "Layer")]}},
            data={"type": "object"},
            encoding=closed([], x=FIELD, y=FIELD),
        ),
        "Facet": closed(["facet", "spec"], facet=FIELD, spec={"$ref": "#/definitions/Spec"}, data={"type": "object"}),
    },
}


def event(kind: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"type": kind, **properties}, "required": ["type", *properties]}


LEVEL = {"enum": ["low", "high"]}
EVENTS: dict[str, Any] = {
    "oneOf": [
        event({"const": "created"}, by=STRING, level=LEVEL),
        event({"enum": ["moved", "copied"]}, source=STRING, target=STRING),
        {"allOf": [{"properties": {"id": STRING}}, event({"const": "removed"}, reason={"required": ["code"]})]},
    ]
}
KINDS: dict[str, Any] = {
    "anyOf": [
        {"properties": {"meta": {"properties": {"kind": {"const": kind}}}, "spec": {"properties": {name: STRING}}}}
        for kind, name in (("Pod", "image"), ("Service", "port"))
    ]
}
MAP = {
    "anyOf": [
        {"type": "object", "additionalProperties": STRING},
        closed(["command"], command=STRING, args={"type": "array", "items": STRING}),
    ]
}
DEEP = {
    "oneOf": [
        {"$ref": "#/$defs/list"},
        {"type": "object", "properties": {"value": {"$ref": "#/$defs/list"}}, "required": ["value"]},
    ],
    "$defs": {"list": {"type": "array", "items": {"oneOf": [{"type": "integer"}, {"$ref": "#"}]}}},
}
NESTED_UNION = {
    "anyOf": [
        {"oneOf": [event({"const": "a"}, x=STRING), event({"const": "b"}, x={"type": "object", "required": ["q"]})]},
        event({"const": "c"}, x={"type": "integer"}),
    ]
}

#: Schema, answer, and what the message must name.
CASES: list[tuple[Any, Any, str]] = [
    (WORKFLOW, {"jobs": {"a": {"runs-on": "x", "steps": [{"run": 5}]}}}, "$.jobs.a.steps[0].run: 5"),
    (WORKFLOW, {"jobs": {"a": {"runs-on": "x", "stepz": []}}}, "(normalJob): $.jobs.a: Additional"),
    (WORKFLOW, {"jobs": {"a": {"steps": [{"run": "x"}]}}}, '(normalJob): $.jobs.a: "runs-on"'),
    (WORKFLOW, {"jobs": {"a": {"uses": "x", "with": 5}}}, "(reusableJob): $.jobs.a.with: 5"),
    (WORKFLOW, {"jobs": {"a": {"uses": "x", "steps": []}}}, "(reusableJob): $.jobs.a: Additional"),
    (WORKFLOW, {"jobs": {"a": {"runs-on": ["x", 5]}}}, '$.jobs.a["runs-on"][1]: 5'),
    (WORKFLOW, {"jobs": {"7": {"runs-on": "x", "needs": [1]}}}, '$.jobs["7"].needs[0]: 1'),
    (CIRCLE, [{"run": {"command": 5}}], "branch 1, branch 1: $[0].run.command: 5"),
    (CIRCLE, [{"run": {"command": "x", "background": "no"}}], '$[0].run.background: "no"'),
    (CIRCLE, [{"save_cache": {"paths": [1], "key": "x"}}], "branch 2: $[0].save_cache.paths[0]: 1"),
    (CIRCLE, ["chekout"], 'branch 0: $[0]: "chekout" is not one of "checkout"'),
    (
        CHART,
        {"mark": "bar", "encoding": {"x": {"field": "a", "type": "nominl"}}},
        'x.type: "nominl" is not one of "nominal"',
    ),
    (CHART, {"mark": "bar", "encoding": {"x": {"field": "a", "axis": {"grid": 1}}}}, "$.encoding.x.axis.grid: 1"),
    (
        CHART,
        {"layer": [{"mark": {"type": "bar"}, "title": 5}]},
        "branch 1 (Layer), branch 0 (Unit): $.layer[0].title: 5",
    ),
    (
        CHART,
        {"facet": {"field": "a"}, "spec": {"mark": "line", "encoding": {"y": {"value": None}}}},
        "$.spec.encoding.y.value: null",
    ),
    (CHART, {"mark": {"type": "pie"}}, '$.mark.type: "pie" is not one of'),
    (EVENTS, {"type": "created", "by": "x", "level": "hgh"}, 'branch 0: $.level: "hgh" is not one of "high", "low"'),
    (EVENTS, {"type": "copied", "source": 1, "level": "low", "by": "x"}, "branch 1: $"),
    (EVENTS, {"type": "removed", "reason": {}, "level": "x"}, 'branch 2: $.reason: "code"'),
    (
        EVENTS,
        {"type": "moves", "source": "a", "target": "b"},
        'branch 1: $.type: "moves" is not one of "moved", "created"',
    ),
    (KINDS, {"meta": {"kind": "Service"}, "spec": {"port": 5, "image": 5}}, "branch 1: $.spec.port: 5"),
    (KINDS, {"meta": {"kind": "Pod"}, "spec": {"port": 5, "image": 5}}, "branch 0: $.spec.image: 5"),
    (MAP, {"a": "x", "b": 5}, "branch 0: $.b: 5"),
    (MAP, {"command": "x", "args": ["x", 5]}, "branch 1: $.args[1]: 5"),
    (MAP, {"command": "x", "args": [], "extra": []}, "branch 1: $: Additional"),
    (DEEP, [1, [2, ["x"]]], '$[1][1][0]: "x"'),
    (DEEP, {"value": [{"value": [{"value": "x"}]}]}, '$.value[0].value[0].value: "x"'),
    (NESTED_UNION, {"type": "b", "x": {}}, 'branch 0, branch 1: $.x: "q"'),
    (NESTED_UNION, {"type": "c", "x": "x"}, 'branch 1: $.x: "x"'),
    ({"anyOf": [STRING, {"type": "array", "items": STRING}]}, [5], "branch 1: $[0]: 5"),
    ({"anyOf": [{"const": None}, closed(["a"], a=STRING)]}, {"a": 1}, "branch 1: $.a: 1"),
    ({"anyOf": [False, {"minimum": 5}]}, 3, "branch 1: $: 3"),
]


def quoted(message: str) -> str:
    return message.replace("'", '"').replace("None", "null")


@pytest.mark.parametrize(("schema", "answer", "expected"), CASES)
def test_nearest_branch_is_the_one_that_the_answer_was_meant_for(
    judge: Judge, jsonschema_judge: Judge, schema: Any, answer: Any, expected: str
) -> None:
    for each in (judge, jsonschema_judge):
        verdict = each.judge(schema, json.dumps(answer))
        assert quoted(expected) in quoted(verdict.violations[0].message)


def test_all_valid_branches_are_named_if_only_one_is_allowed(judge: Judge) -> None:
    verdict = judge.judge(
        {"oneOf": [{"required": ["a"]}, {"required": ["c"]}, {"required": ["b"]}]}, '{"a": 1, "b": 2}'
    )
    assert verdict.violations[0].message.endswith("; the value is valid under the branches 0, 2")


def broken_leaves(value: Any, rng: random.Random) -> Iterator[tuple[str, Any]]:
    """Yield the places of some scalars, each with a copy of the value that has another type there."""
    paths = [path for path in _scalars(value) if path]
    for path in rng.sample(paths, min(3, len(paths))):
        copy = deepcopy(value)
        holder = copy
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = 12345.5 if isinstance(holder[path[-1]], str) else "zzz"
        yield json_path(path), copy


def _scalars(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if below is None:
        yield path
    for step, inner in below or ():
        yield from _scalars(inner, (*path, step))


def says_nearest(verdict: Verdict, place: str) -> bool:
    """Return whether a union failed because of a value inside it, and whether the message names its nearest branch."""
    violation = verdict.violations[0] if verdict.violations else None
    return violation is not None and violation.instance_path != place and "; nearest is" in violation.message


@pytest.mark.slow
@needs_labels
def test_nearest_branch_leads_to_the_value_that_was_changed(rs_judge: Judge) -> None:
    rng = random.Random(7)
    found = wrong = 0
    for _, schema, text, valid in labelled(every=2):
        written = json.dumps(schema)
        if valid and ('"anyOf"' in written or '"oneOf"' in written):
            for place, answer in broken_leaves(json.loads(text), rng):
                verdict = rs_judge.judge(schema, json.dumps(answer))
                if says_nearest(verdict, place):
                    found += 1
                    wrong += f": {place}: " not in verdict.violations[0].message and "…" not in place
    assert found > 400
    # a message of limited length may truncate the place
    assert wrong <= 0.01 * found


def test_nearest_branch_of_very_many_is_found_in_time(rs_judge: Judge) -> None:
    branches = [
        event({"const": f"kind-{n}"}, **{f"field{n}": {"oneOf": [STRING, {"type": "integer"}]}}) for n in range(300)
    ]
    verdict = rs_judge.judge({"items": {"oneOf": branches}}, json.dumps([{"type": "kind-222", "field222": []}] * 20))
    assert len(verdict.violations) == 20
    assert "branch 222" in verdict.violations[0].message
