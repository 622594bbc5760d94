"""Test properties that every answer and every schema has."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_2020_12, Dialect, find_dialect
from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, SecondOpinion, Verdict
from pytest_jsbench.verdicts.in_process import InProcessJudge
from pytest_jsbench.verdicts.verdicts import Note, write_schema
from tests.support import fuzzing

DEFAULT = JudgePolicy()
WITHOUT_INSTANCE = {
    FailureType.INVALID_SCHEMA, FailureType.TRUNCATED, FailureType.SYNTAX_ERROR, FailureType.UNJUDGED,
}  # fmt: skip
#: Failure types that the judge can assign to a completion.
SAYABLE = {None, *WITHOUT_INSTANCE, FailureType.HALLUCINATION, FailureType.SCHEMA_VIOLATION}
#: Reasons for which valid JSON is not read.
LIMITS = {"number_out_of_range", "lone_surrogate", "too_deep"}

SCHEMAS: list[Any] = [
    True,
    False,
    {},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]},
    {"properties": {"a": {"$ref": "#"}}, "additionalProperties": False},
    {"type": ["array", "null"], "items": {"anyOf": [{"type": "number", "multipleOf": 0.01}, {"maxLength": 2}]}},
    {"patternProperties": {"^[a-z]$": {"minimum": 0}}, "propertyNames": {"maxLength": 3}},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}, {"type": "string", "format": "date"}]},
    {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer", "maximum": 7, "exclusiveMaximum": True},
    {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}], "additionalItems": {"enum": ["x"]}},
    {"prefixItems": [{"uniqueItems": True}], "unevaluatedItems": False, "not": {"contains": {"const": None}}},
]


def examples(number: int) -> Callable[[Any], Any]:
    return fuzzing.examples(number, HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


@functools.cache
def in_process(policy: JudgePolicy) -> InProcessJudge:
    return InProcessJudge(policy)


def decide(judge: InProcessJudge, schema: object, text: str, *, truncated: bool = False) -> Verdict:
    written = write_schema(schema)
    assert not isinstance(written, Verdict), written
    *_, verdict = judge.judge(written, text, truncated=truncated)
    return verdict


def check_sense(verdict: Verdict) -> None:
    assert verdict.failure_type in SAYABLE
    assert verdict.passed is (verdict.failure_type is None)
    assert (verdict.valid is None) is (verdict.failure_type in WITHOUT_INSTANCE)
    assert verdict.valid is not None or verdict.reason
    assert verdict.passed is (verdict.message == "")
    assert len(verdict.message) < 2000
    assert "\n" not in verdict.message
    assert verdict.violations == () or verdict.valid is False
    if verdict.passed:
        assert verdict.valid is True
    if verdict.failure_type is FailureType.SCHEMA_VIOLATION:
        assert verdict.valid is False
    if verdict.failure_type is FailureType.HALLUCINATION:
        assert verdict.extra_fields


# texts

characters = st.one_of(
    st.characters(),
    st.characters(categories=["Cs", "Cc", "Cf", "Zs", "Nd"]),
    st.sampled_from('{}[]",:\\/ \t\r\n`~-+.eE0123456789truefalsn\ufeff\u2028\u00a0\x00'),
)
keys = st.sampled_from(["a", "b", "c", "ab", "", "é", "__proto__", "$ref", "a/b", "a~", "toString", "😀"])
numbers = st.one_of(
    st.integers(-9, 9),
    st.integers(),
    st.sampled_from([2**53, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**30, 0.1, 0.01, 4.35, 1e100, -0.0, 1.0, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False),
)
written_numbers = st.sampled_from(
    ["1e400", "-1e400", "-0", "-0.0", "1E5", "1e-999", "0e999", "1.0", "01", "1.", ".5", "NaN", "-Infinity", "٣"]
    + [sign + "9" * digits for sign in ("", "-") for digits in (400, 4299, 4300, 4301)]
    + ["0." + "1" * digits for digits in (400, 4298, 4299)]
)
fragments = st.one_of(
    st.text(characters, max_size=12),
    written_numbers,
    st.sampled_from(
        [
            '{"a": 1}', "{", "}", "[", "]", ",", ":", '"', "\\", "```", "```json\n", "\n```", "~~~\n", "<think>",
            "null", "</think>", "//", "/* */", "'", "True", "\\ud800", "\\udc00", "\\u0000", "\\ud83d\\ude00",
            '"a": ', "\ufeff",
        ]
    ),
)  # fmt: skip


def nested(leaves: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=8
    )


scalars = st.none() | st.booleans() | numbers | st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | keys
values = nested(scalars)
documents = st.builds(json.dumps, values, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 1, "\t"]))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(documents)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 5)))
        text = text[:start] + draw(fragments) + text[end:]
    return text


@st.composite
def deep(draw: st.DrawFn) -> str:
    depth = draw(st.sampled_from([1, 50, 127, 128, 129, 300, 5000, 100_000]))
    opener, closer = draw(st.sampled_from([("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"), ('"[', '"')]))
    return (
        opener * depth + draw(st.sampled_from(["", "1", "{}", '"["'])) + closer * draw(st.sampled_from([depth, 0, 3]))
    )


def wrapped(texts: SearchStrategy[str]) -> SearchStrategy[str]:
    around = st.sampled_from(
        [
            ("", ""), ("```json\n", "\n```"), ("```\n", "\n```\n"), ("~~~ JSON\r\n", "\r\n~~~"), ("```json\n", ""),
            ("```\n", "```"), ("<think>x</think>", ""), (" \n", "\t"), ("Sure: ", ""), ("", " Done."),
            ("````\n", "\n```"),
        ]
    )  # fmt: skip
    return st.builds(lambda sides, text: sides[0] + text + sides[1], around, texts)


texts = st.one_of(
    st.text(characters, max_size=30),
    st.lists(fragments, max_size=8).map("".join),
    written_numbers,
    documents,
    mutated(),
    wrapped(documents | mutated()),
    deep(),
)
policies = st.builds(
    JudgePolicy,
    fences=st.sampled_from(["strip", "forbid"]),
    reasoning=st.sampled_from(["keep", "strip"]),
    extra_fields=st.sampled_from(["fail", "allow"]),
    formats=st.sampled_from(["assert", "ignore"]),
    validator=st.sampled_from(["both", "jsonschema-rs", "jsonschema"]),
)


def refuse(name: str) -> NoReturn:
    raise ValueError(name)


def is_json(text: str) -> bool:
    """Return whether the text is one JSON document by its grammar, as far as the standard library checks it."""
    try:
        json.loads(text, parse_constant=refuse)
    except RecursionError:
        return text.count("[") + text.count("{") > 900
    except json.JSONDecodeError:
        return False
    except ValueError as error:
        return "int string conversion" in str(error)
    return True


def strings_and_numbers(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
        else:
            yield value


def beyond(text: str) -> str | None:
    """Return the limit that a JSON text exceeds."""
    try:
        value = json.loads(text, parse_float=str, parse_int=lambda digits: float(digits[:5]))
    except RecursionError:
        return "too_deep"
    if any(
        isinstance(each, str) and any("\ud800" <= c <= "\udfff" for c in each) for each in strings_and_numbers(value)
    ):
        return "lone_surrogate"
    numbers: list[bool] = []
    json.loads(
        text,
        parse_float=lambda digits: numbers.append(math.isinf(float(digits)) or len(digits) > 4300 or is_tiny(digits)),
        parse_int=lambda digits: numbers.append(len(digits.strip("-")) > 4300),
    )
    return "number_out_of_range" if any(numbers) else None


def is_tiny(digits: str) -> bool:
    """Return whether a number has more than 4,300 leading zeros after the point, such as 1E-5000."""
    mantissa, _, exponent = digits.lower().partition("e")
    whole, _, rest = mantissa.strip("-").partition(".")
    zeros = len(rest) - len(rest.lstrip("0"))
    if not (whole + rest).strip("0"):
        return False
    first = len(whole.lstrip("0")) - 1 if whole.strip("0") else -1 - zeros
    return first + int(exponent or 0) < -4300


def inside_of_fence(text: str) -> str:
    text = text.strip(" \t\r\n")
    return text.rstrip(text[0]).split("\n", 1)[1]


@examples(300)
@given(st.sampled_from(SCHEMAS), texts, st.booleans(), policies)
def test_any_text_has_a_sensible_verdict_that_is_always_the_same(
    schema: Any, text: str, truncated: bool, policy: JudgePolicy
) -> None:
    verdict = decide(in_process(policy), schema, text, truncated=truncated)
    check_sense(verdict)
    assert verdict.failure_type not in {FailureType.INVALID_SCHEMA, FailureType.UNJUDGED}
    assert (verdict.failure_type is FailureType.TRUNCATED) <= truncated
    assert (verdict.failure_type is FailureType.SYNTAX_ERROR) <= (not truncated)
    assert decide(InProcessJudge(policy), schema, text, truncated=truncated) == verdict


@examples(400)
@given(texts)
def test_text_is_a_syntax_error_if_invalid_json_or_beyond_a_limit(text: str) -> None:
    verdict = decide(in_process(DEFAULT), True, text)
    if is_json(text):
        limit = beyond(text)
        assert verdict.passed or verdict.reason in LIMITS
        assert verdict.passed or limit or verdict.reason == "too_deep"
        assert not (verdict.passed and limit)
    elif Note.FENCED in verdict.notes and verdict.passed:
        assert is_json(inside_of_fence(text))
    elif Note.UNCLOSED_FENCE in verdict.notes and verdict.passed:
        assert is_json(text.strip(" \t\r\n").split("\n", 1)[1])
    else:
        assert verdict.failure_type is FailureType.SYNTAX_ERROR


@examples(150)
@given(st.sampled_from(SCHEMAS), values)
def test_how_a_document_is_written_does_not_matter(schema: Any, value: Any) -> None:
    verdict = decide(in_process(DEFAULT), schema, json.dumps(value))
    for text in (json.dumps(value, ensure_ascii=False, indent=2), f"\r\n{json.dumps(value, separators=(',', ':'))}\t"):
        assert decide(in_process(DEFAULT), schema, text) == verdict
    fenced = decide(in_process(DEFAULT), schema, f"```json\n{json.dumps(value)}\n```")
    assert (fenced.failure_type, fenced.violations) == (verdict.failure_type, verdict.violations)


# schemas

names = st.sampled_from(["string", "integer", "number", "object", "array", "boolean", "null"])
counts = st.integers(0, 4)
# patterns that need linear time and have the same meaning in any engine
patterns = st.sampled_from(["^a", "b$", "^[a-c]*$", "[0-9]+", ".", "", "^.{2,3}$", "é", "^(a|b)$", "\\d", "a\\.b"])
broken_patterns = st.sampled_from(
    ["(", "[", "*", "\\", "a{2,1}", "(?<a", "[z-a]", "\\p{Nope}", "\\_", "]", "{", "(?i)a"]
)
formats = st.sampled_from(
    ["date", "date-time", "email", "uri", "ipv4", "uuid", "regex", "hostname", "nope", "int32", ""]
)
references = st.sampled_from(
    [
        "#", "#/$defs/a", "#/$defs/b", "#/definitions/a", "#/properties/a", "#a", "#/allOf/0", "#/items", "#/nowhere",
        "b.json", "b.json#/a", "https://example.org/x.json", "https://example.org/root.json", "file:///etc/passwd",
        "http://[bad", "#/%", "#/a~2b", "urn:x:y", "", "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-04/schema#/definitions/positiveInteger",
    ]
)  # fmt: skip
identifiers = st.sampled_from(["https://example.org/root.json", "b.json", "#a", "http://[bad", "urn:x:y", "", "%"])
data = nested(scalars)
rarely = st.integers(0, 15).map(lambda number: number == 7)


def keywords(inner: SearchStrategy[Any]) -> dict[str, SearchStrategy[Any]]:
    """Return a strategy for every keyword of the five dialects, with values that some dialect allows."""
    some, named = st.lists(inner, min_size=1, max_size=3), st.dictionaries(keys, inner, max_size=3)
    of_schema = dict.fromkeys(
        [
            "not", "if", "then", "else", "items", "contains", "propertyNames", "additionalItems",
            "additionalProperties", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
        ],
        inner,
    )  # fmt: skip
    of_schemas = dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems", "items "], some)
    of_names = dict.fromkeys(["properties", "$defs", "definitions", "dependentSchemas"], named)
    of_count = dict.fromkeys(
        [
            "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
            "maxContains",
        ],
        counts,
    )  # fmt: skip
    of_number = dict.fromkeys(["minimum", "maximum"], numbers)
    return {
        **of_schema,
        **of_schemas,
        **of_names,
        **of_count,
        **of_number,
        "exclusiveMinimum": numbers | st.booleans(),
        "exclusiveMaximum": numbers | st.booleans(),
        "multipleOf": st.sampled_from([1, 2, 3, 0.5, 0.25, 7, 2**40, 1e20]),
        "uniqueItems": st.booleans(),
        "type": names | st.lists(names, min_size=1, max_size=3, unique=True),
        "enum": st.lists(data, min_size=1, max_size=4, unique_by=json.dumps),
        "const": data,
        "required": st.lists(keys, max_size=3, unique=True),
        "dependentRequired": st.dictionaries(keys, st.lists(keys, max_size=2, unique=True), max_size=2),
        "dependencies": st.dictionaries(keys, inner | st.lists(keys, min_size=1, max_size=2, unique=True), max_size=2),
        "patternProperties": st.dictionaries(patterns, inner, max_size=2),
        "pattern": patterns,
        "format": formats,
        "$ref": references,
        "$dynamicRef": st.sampled_from(["#", "#a", "#/$defs/a"]),
        "$recursiveRef": st.just("#"),
        "$anchor": st.sampled_from(["a", "b"]),
        "$dynamicAnchor": st.just("a"),
        "$recursiveAnchor": st.booleans(),
        "$id": identifiers,
        "id": identifiers,
        "default": data,
        "examples": st.lists(data, max_size=2),
        "$comment": st.just("x"),
        "contentEncoding": st.just("base64"),
        "contentMediaType": st.just("application/json"),
        "readOnly": st.booleans(),
        "x-unknown": data | inner,
        "$vocabulary": st.just({"https://json-schema.org/draft/2020-12/vocab/core": True}),
    }


def subschemas(inner: SearchStrategy[Any], broken: bool) -> SearchStrategy[Any]:
    makers = keywords(inner)
    a_keyword = st.sampled_from(sorted(makers))
    chosen, wrong = st.lists(a_keyword, max_size=5, unique=True), data | broken_patterns | references

    @st.composite
    def one(draw: st.DrawFn) -> Any:
        schema = {keyword.strip(): draw(makers[keyword]) for keyword in draw(chosen)}
        if broken and draw(rarely):
            schema[draw(a_keyword).strip()] = draw(wrong)
        if broken and draw(rarely):
            schema["patternProperties"] = {draw(broken_patterns): draw(inner)}
        return schema

    return one()


def schemas(*, broken: bool) -> SearchStrategy[Any]:
    leaves = st.booleans() | st.builds(lambda name: {"type": name}, names)
    return st.recursive(leaves, lambda inner: subschemas(inner, broken), max_leaves=12)


sound_schemas, broken_schemas = schemas(broken=False), schemas(broken=True)
dialect_uris = st.sampled_from([dialect.uri for dialect in DIALECTS])
odd_dialects: SearchStrategy[Any] = st.sampled_from(
    [
        "", "#", "http://json-schema.org/schema#", "http://json-schema.org/draft-03/schema#", 7, None, {}, [],
        "https://json-schema.org/draft/2020-12/schema#", "http://json-schema.org/draft-07/schema", "http://[bad",
        "\x00",
    ]
)  # fmt: skip


@st.composite
def whole_schemas(draw: st.DrawFn, *, broken: bool) -> Any:
    any_kind = broken_schemas if broken else sound_schemas
    schema = draw(any_kind)
    if isinstance(schema, dict) and draw(st.integers(0, 3)):
        schema["$schema"] = draw(odd_dialects) if broken and draw(rarely) else draw(dialect_uris)
    if isinstance(schema, dict) and draw(st.booleans()):
        schema.setdefault("$defs", {"a": draw(any_kind), "b": draw(any_kind)})
    return schema


#: Arbitrary schemas, and those that more often have a meaning.
any_schema = whole_schemas(broken=True) | whole_schemas(broken=False)


def dialect_of(schema: Any) -> Dialect | None:
    return find_dialect(schema["$schema"]) if isinstance(schema, dict) and "$schema" in schema else DRAFT_2020_12


def by_jsonschema_rs(schema: Any, dialect: Dialect, instance: Any) -> bool | None:
    if "(?i)" in json.dumps(schema):  # flags inside a pattern are supported for some dialects, but ECMA-262 has none
        return None
    cls = getattr(jsonschema_rs, dialect.validator)
    try:
        compiled = cls(schema, validate_formats=True, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return None
    valid: bool = compiled.is_valid(instance)
    return valid


def by_jsonschema(schema: Any, dialect: Dialect, instance: Any) -> bool | None:
    cls = getattr(jsonschema, dialect.validator)
    try:
        valid: bool = cls(schema, registry=REGISTRY).is_valid(instance)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None
    return valid


@pytest.mark.slow
@examples(300)
@given(any_schema, values)
def test_any_schema_gets_the_verdict_of_jsonschema_rs_in_its_dialect(schema: Any, value: Any) -> None:
    verdict = decide(in_process(DEFAULT), schema, json.dumps(value))
    check_sense(verdict)
    assert verdict == decide(InProcessJudge(DEFAULT), schema, json.dumps(value))
    dialect = dialect_of(schema)
    if dialect is None:
        assert verdict.reason == "unknown_dialect"
        return
    has_formats = '"format"' in json.dumps(schema)
    # a reference to itself has no effect there; core, section 9.4.1, leaves it undefined
    expected = None if verdict.reason == "endless_reference" else by_jsonschema_rs(schema, dialect, value)
    if expected is not None and (dialect is DRAFT_2020_12 or not has_formats):
        assert verdict.valid is expected
    if expected is not None:
        assert verdict.valid is not None


@examples(200)
@given(whole_schemas(broken=False), values)
def test_disagreement_of_jsonschema_is_a_dispute(schema: Any, value: Any) -> None:
    verdict = decide(in_process(DEFAULT), schema, json.dumps(value))
    check_sense(verdict)
    dialect, written = dialect_of(schema), json.dumps(schema)
    assert dialect is not None
    if verdict.valid is None:
        assert verdict.second_opinion is SecondOpinion.NOT_ASKED
    # the second opinion reads these in its own way
    elif not any(keyword in written for keyword in ('"format"', '"multipleOf"', '"dependencies"')):
        other = by_jsonschema(schema, dialect, value)
        expected = {None: SecondOpinion.UNDECIDED, verdict.valid: SecondOpinion.AGREES}
        assert verdict.second_opinion is expected.get(other, SecondOpinion.DISAGREES)


@examples(120)
@given(any_schema, values, policies.filter(lambda policy: policy.validator != "jsonschema"))
def test_schema_is_inspected_and_judged_consistently_under_any_policy(
    schema: Any, value: Any, policy: JudgePolicy
) -> None:
    written = write_schema(schema)
    assert isinstance(written, str)
    problem = in_process(policy).inspect(written)
    verdict = decide(in_process(policy), schema, json.dumps(value))
    check_sense(verdict)
    if problem is None:
        assert verdict.failure_type is not FailureType.INVALID_SCHEMA
    else:
        assert problem.failure_type is verdict.failure_type
        assert (problem.reason, problem.message) == (verdict.reason, verdict.message)


@examples(150)
@given(st.sampled_from(SCHEMAS) | any_schema, texts, st.booleans())
def test_child_process_gives_the_same_result_within_its_limit(
    judge: Judge, schema: Any, text: str, truncated: bool
) -> None:
    judge.inspect(True)
    child = judge._calls._child
    start = time.perf_counter()
    verdict = judge.judge(schema, text, truncated=truncated)
    # limits for the verdict, the first violation, all violations and the second opinion
    assert time.perf_counter() - start < judge.policy.timeout + 3 * 1 + 2
    check_sense(verdict)
    assert judge._calls._child is child
    expected = decide(in_process(DEFAULT), schema, text, truncated=truncated)
    assert verdict.to_dict() == expected.to_dict(), write_schema(schema)


@examples(60)
@given(nested(scalars | st.floats() | st.text(st.characters(categories=["Cs"]), max_size=3)), documents)
def test_any_value_in_place_of_a_schema_raises_no_exception(judge: Judge, schema: Any, text: str) -> None:
    verdict = judge.judge(schema, text)
    check_sense(verdict)
    problem = judge.inspect(schema)
    if problem is None:
        assert verdict.failure_type is not FailureType.INVALID_SCHEMA
    else:
        assert problem.failure_type is verdict.failure_type


@examples(60)
@given(any_schema, values)
def test_jsonschema_judges_any_schema_or_its_failure_is_reported(
    jsonschema_judge: Judge, schema: Any, value: Any
) -> None:
    verdict = jsonschema_judge.judge(schema, json.dumps(value))
    check_sense(verdict)
    assert verdict.failure_type is not FailureType.UNJUDGED or verdict.reason in ("crashed", "endless_reference")
    assert not verdict.disputed
