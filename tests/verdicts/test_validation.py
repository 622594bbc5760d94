from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.verdicts import Judge, JudgePolicy
from pytest_jsbench.verdicts.in_process import InProcessJudge

DRAFT_7 = "http://json-schema.org/draft-07/schema#"

VIOLATIONS = [
    ({"type": "string"}, 1, "type", "$", "/type"),
    ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"minLength": 2}}}, {"a": "b"}, "minLength", "$.a",
     "/$defs/x/minLength"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 1, "anyOf", "$", "/anyOf"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 1}]}, 1, "oneOf", "$", "/oneOf"),
    ({"not": {"type": "integer"}}, 1, "not", "$", "/not"),
    ({"allOf": [{}, {"required": ["a"]}]}, {}, "required", "$", "/allOf/1/required"),
    ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, "required", "$", "/then/required"),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "required", "$", "/dependentSchemas/a/required"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "dependentRequired", "$", "/dependentRequired"),
    ({"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}, {"a": 1}, "dependencies", "$", "/dependencies"),
    ({"contains": {"type": "null"}}, [1], "contains", "$", "/contains"),
    ({"contains": {"type": "null"}, "minContains": 2}, [None], "minContains", "$", "/minContains"),
    ({"contains": {"type": "null"}, "maxContains": 1}, [None, None], "maxContains", "$", "/maxContains"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "propertyNames", "$", "/propertyNames/maxLength"),
    ({"properties": {"a": {}}, "additionalProperties": {"type": "null"}}, {"b": 1}, "type", "$.b",
     "/additionalProperties/type"),
    ({"$ref": "#/$defs/x", "unevaluatedProperties": False, "$defs": {"x": {"properties": {"a": {}}}}},
     {"a": 1, "b": 1}, "unevaluatedProperties", "$", "/unevaluatedProperties"),
    ({"properties": {"items": False}}, {"items": 1}, "properties", "$.items", "/properties/items"),
    ({"prefixItems": [{}], "items": False}, [1, 2], "items", "$[1]", "/items"),
    (False, 1, "false", "$", ""),
    ({"items": {"properties": {"x-y": {"enum": [1]}}}}, [{"x-y": 1}, {"x-y": 2}], "enum", '$[1]["x-y"]',
     "/items/properties/x-y/enum"),
    ({"patternProperties": {"^a/b~": {"type": "null"}}}, {"a/b~": 1}, "type", '$["a/b~"]',
     "/patternProperties/^a~1b~0/type"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "instance", "keyword", "instance_path", "schema_path"), VIOLATIONS)
def test_a_violation_names_the_keyword_and_both_places(
    judge: Judge, schema: Any, instance: object, keyword: str, instance_path: str, schema_path: str
) -> None:
    verdict = judge.judge(schema, json.dumps(instance))
    first = verdict.violations[0]
    assert (first.keyword, first.instance_path, first.schema_path) == (keyword, instance_path, schema_path)
    assert verdict.keyword == keyword


@pytest.mark.parametrize(("schema", "instance", "keyword", "instance_path", "_schema_path"), VIOLATIONS)
def test_jsonschema_alone_names_the_same_place(
    jsonschema_judge: Judge, schema: Any, instance: object, keyword: str, instance_path: str, _schema_path: str
) -> None:
    verdict = jsonschema_judge.judge(schema, json.dumps(instance))
    places = {(each.keyword, each.instance_path) for each in verdict.violations}
    if keyword in {"minContains", "maxContains"}:
        keyword = "contains"  # jsonschema checks the three together
    if keyword in {"properties", "items"}:
        instance_path = "$"  # it reports a `false` schema only at the object or array that contains the value
    assert (keyword, instance_path) in places


def test_message_states_what_was_expected_and_found(judge: Judge) -> None:
    verdict = judge.judge({"properties": {"width": {"type": "number"}}}, '{"width": "10.5"}')
    assert verdict.violations[0].message == '"10.5" is not of type "number"'
    assert verdict.message == '$.width: "10.5" is not of type "number"'


def test_too_few_and_too_many_items_are_distinguished(judge: Judge) -> None:
    schema = {"contains": {"type": "null"}, "minContains": 2, "maxContains": 3}
    assert "too few" in judge.judge(schema, "[null]").message
    assert "too many" in judge.judge(schema, "[null, null, null, null]").message


def test_the_first_twenty_violations_are_kept(judge: Judge) -> None:
    verdict = judge.judge({"items": {"type": "string"}}, json.dumps(list(range(50))))
    assert [each.instance_path for each in verdict.violations] == [f"$[{i}]" for i in range(20)]
    assert verdict.message.endswith("(and 19 more)")


@pytest.mark.parametrize("validator", ["judge", "jsonschema_judge"])
def test_quotes_in_violations_are_short_and_printable(request: pytest.FixtureRequest, validator: str) -> None:
    judge: Judge = request.getfixturevalue(validator)
    nasty = "\x1b[31m\n\u202e" + "é" * 5000
    verdict = judge.judge({"additionalProperties": {"type": "null"}}, json.dumps({nasty: nasty}))
    texts = [verdict.message, verdict.violations[0].message, verdict.violations[0].instance_path]
    for text in texts:
        assert len(text) <= 700
        assert text.isprintable()
        text.encode("utf-8")
    assert len(verdict.violations[0].message) <= 300


def test_a_pattern_of_the_old_mode_is_judged_by_its_meaning(judge: Judge) -> None:
    schema = {"patternProperties": {r"^a\_b}$": {"pattern": r"^PUBMED:\{d}$"}}, "additionalProperties": False}
    assert judge.judge(schema, '{"a_b}": "PUBMED:{d}"}').passed
    assert judge.judge(schema, '{"a_b}": "PUBMED:7"}').keyword == "pattern"
    assert judge.judge(schema, '{"ab}": "PUBMED:{d}"}').keyword == "additionalProperties"


def test_one_pattern_of_the_old_mode_does_not_change_how_another_is_read(judge: Judge) -> None:
    schema = {"allOf": [{"pattern": r"^[^\<]+$"}, {"pattern": r"\Ab"}]}
    assert judge.judge(schema, '"Ab"').passed
    assert judge.judge(schema, '"Ab<"').keyword == "pattern"
    assert judge.judge(schema, '"bc"').keyword == "pattern"


@pytest.mark.parametrize(
    ("schema", "text", "path", "message"),
    [
        ({"pattern": r"^\d$"}, '"x"', "/pattern", r'$: "x" does not match "^\d$"'),
        ({"not": {"pattern": r"^\d$"}}, '"1"', "/not", r'$: {"pattern":"^\\d$"} is not allowed for "1"'),
        ({"propertyNames": {"pattern": r"\d"}}, '{"a": 1}', "/propertyNames/pattern", r'$: "a" does not match "\d"'),
        ({"patternProperties": {r"\d": False}}, '{"a1": 1}', r"/patternProperties/\d", None),
        ({"patternProperties": {r"\d": {}, "[0-9]": {"type": "null"}}}, '{"a1": 1}',
         "/patternProperties/[0-9]/type", None),
    ],
)  # fmt: skip
def test_reports_quote_patterns_as_the_schema_writes_them(
    judge: Judge, schema: dict[str, object], text: str, path: str, message: str | None
) -> None:
    verdict = judge.judge(schema, text)
    assert verdict.violations[0].schema_path == path
    assert message is None or verdict.message == message


def test_a_metaschema_error_quotes_patterns_as_the_schema_writes_them(judge: Judge) -> None:
    problem = judge.inspect({"patternProperties": {r"\d": {"items": [{"pattern": r"\w"}]}}})
    assert problem is not None
    assert problem.message.startswith(r"""$.patternProperties["\\d"].items: [{'pattern': '\\w'}] is not of type""")


@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
@pytest.mark.parametrize("validator", ["both", "jsonschema"])
def test_invalid_pattern_makes_the_schema_invalid_for_both_validators(keyword: str, validator: Any) -> None:
    schema = {"properties": {"a": {keyword: "(?i)b" if keyword == "pattern" else {"(?i)b": {}}}}}
    problem = InProcessJudge(JudgePolicy(validator=validator)).inspect(json.dumps(schema))
    assert problem is not None
    assert problem.reason == "pattern"
    assert problem.message.startswith(f"$.properties.a.{keyword}")
    assert "'(?i)b' is not an ECMA-262 pattern: Invalid group modifier" in problem.message


def test_a_pattern_where_no_metaschema_looks_is_named_with_its_place() -> None:
    schema = {"components": {"x-y": [{"pattern": "("}]}}
    problem = InProcessJudge(JudgePolicy(validator="jsonschema")).inspect(json.dumps(schema))
    assert problem is not None
    assert problem.message.startswith("$.components[\"x-y\"][0]: '(' is not an ECMA-262 pattern: ")


def test_pattern_unsupported_by_jsonschema_rs_is_left_to_jsonschema(judge: Judge) -> None:
    schema = {"patternProperties": {r"^(?:(a)|b)*\1$": {"multipleOf": 0.01}}, "additionalProperties": False}
    right, wrong = judge.judge(schema, '{"ab": 4.35}'), judge.judge(schema, '{"aba": 1}')
    assert (right.passed, right.second_opinion) == (True, "undecided")
    assert (wrong.keyword, wrong.second_opinion) == ("additionalProperties", "undecided")


def test_references_are_probed_with_a_pattern_unsupported_by_jsonschema_rs(judge: Judge) -> None:
    problem = judge.inspect({"pattern": r"(?:(a)|b)*\1", "items": {"$ref": "#/nowhere"}})
    assert problem is not None
    assert problem.reason == "unresolvable_reference"


@pytest.mark.parametrize("validator", ["both", "jsonschema"])
def test_references_lead_through_patterns_that_are_written_otherwise(validator: Any) -> None:
    named = {r"^\d/~.$": {"properties": {"a": {"type": "null"}}}, "^x": {}}
    reference = "#/patternProperties/%5E%5Cd~1~0.$/properties/a"
    schema = {"patternProperties": named, "properties": {"b": {"$ref": reference}}}
    judge = InProcessJudge(JudgePolicy(validator=validator))
    *_, right = judge.judge(json.dumps(schema), '{"b": null}', truncated=False)
    *_, wrong = judge.judge(json.dumps(schema), '{"b": 1}', truncated=False)
    assert (right.passed, wrong.keyword) == (True, "type")


@pytest.mark.parametrize(
    ("draft", "formats", "valid"),
    [("draft-06", "assert", True), ("draft-07", "assert", False), ("draft-07", "ignore", True)],
)
@pytest.mark.parametrize("keyword", [{"contentEncoding": "base64"}, {"contentMediaType": "application/json"}])
def test_contents_are_asserted_in_draft_7_alone_and_there_as_formats_are(
    draft: str, formats: Any, valid: bool, keyword: dict[str, str]
) -> None:
    judge = InProcessJudge(JudgePolicy(formats=formats))
    schema = json.dumps({"$schema": f"http://json-schema.org/{draft}/schema#", **keyword})
    *_, verdict = judge.judge(schema, '"{"', truncated=False)
    assert verdict.valid is valid


@pytest.mark.parametrize("schema", [{"type": "objct"}, {"$schema": DRAFT_7, "type": "objct"}])
def test_a_misspelt_type_is_named_with_the_type_that_is_meant(judge: Judge, schema: dict[str, Any]) -> None:
    problem = judge.inspect(schema)

    assert problem is not None
    assert problem.message.startswith("$.type: 'objct' is not a type: did you mean 'object'? (one of array, ")


@pytest.mark.parametrize(
    ("values", "answer", "message"),
    [
        (["draft", "open", "paid", "void"], '"opne"', '$: "opne" is not one of "open", "draft", "paid", "void"'),
        (["draft", "open", "paid", "void"], '"OPEN"', '$: "OPEN" is not one of "open", "draft", "paid", "void"'),
        (["draft", "open", "paid", "void"], "7", '$: 7 is not one of "draft", "open", "paid", "void"'),
        ([1, None, "é", [1.5], {"a": True}], "{}", '$: {} is not one of 1, null, "é", [1.5], {"a": true}'),
        ([f"value-{n}" for n in range(500)], '"value-4444"', '$: "value-4444" is not one of "value-444", "value-0"'),
        (["a\u001b[31m"], '"b"', '$: "b" is not one of "a\\u001b[31m"'),
    ],
)
@pytest.mark.parametrize("validator", ["both", "jsonschema"])
def test_enum_violation_lists_the_allowed_values_with_the_nearest_first(
    validator: Any, values: list[Any], answer: str, message: str
) -> None:
    with Judge(JudgePolicy(validator=validator)) as judge:
        verdict = judge.judge({"enum": values}, answer)
    assert verdict.message.startswith(message)
    assert len(verdict.message) <= 300
    shown = verdict.message.count(",") + 1
    assert len(values) < 100 or (shown > 10 and verdict.message.endswith(f" and {len(values) - shown} more"))
