"""The next step after a case that did not pass: what a person can change, as far as the attempt shows it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import assert_never

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.generations import Completion, Failed, FaultKind, Generation, GenerationParams, ResponseFormat
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.keywords import keywords_on
from pytest_jsbench.schemas.references import follow, tokens_of
from pytest_jsbench.verdicts import FailureType, Note, Verdict
from pytest_jsbench.verdicts.verdicts import Violation

#: characters at an answer's end that, where they stand there again and again, are no accident
_REPEATED, _TIMES = 24, 4
_MOST_KEYWORDS = 3
#: keywords that engines seldom hold to (docs/decoding-results.md), and what says the same in others
_RESTATED = {
    "format": "a pattern",
    **dict.fromkeys(("if", "then", "else", "dependentSchemas"), "branches of anyOf"),
    **dict.fromkeys(("dependentRequired", "dependencies"), "branches of anyOf"),
    "not": "what is allowed",
    "allOf": "one schema",
    "prefixItems": "named properties",
    **dict.fromkeys(("minProperties", "maxProperties", "propertyNames", "patternProperties"), "named properties"),
}
#: those of them in which the broken keyword may stand: an engine that passes over one passes over all in it
_APPLYING = frozenset({"if", "then", "else", "dependentSchemas", "dependencies", "not", "allOf", "prefixItems"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
#: the largest range of steps that an enum can well stand for
_FEW = 20
#: classes of characters by a letter, in a pattern
_LETTERED = re.compile(r"\\[dDwWsS]")
#: keywords that say another shape where a list of items was not held to
_SHAPES = ("type", "required", "additionalProperties", "properties")
#: a unit of so many characters at most that is repeated at the end of an answer
_LONGEST_UNIT = 40
#: keywords and types by which an answer is known that is a schema, and the longest in which they are looked for
_OF_SCHEMAS = ("properties", "required", "enum", "items", "$defs", "description")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_LONGEST_LOOKED_AT = 20_000


def next_step(
    verdict: Verdict, generation: Generation | None, params: GenerationParams | None, schema: Schema | None
) -> str:
    """Say what to change for a case that did not pass; empty where its attempt shows nothing."""
    match verdict.failure_type:
        case FailureType.API_ERROR:
            return "" if params is None or not isinstance(generation, Failed) else _after_fault(generation, params)
        case FailureType.TRUNCATED:
            return _after_limit(generation, params)
        case FailureType.UNSUPPORTED_SCHEMA:
            return "the engine does not take this schema: change what it names, or see `jsbench adapt`"
        case FailureType.REFUSAL:
            return "-v shows the prompt that was refused"
        case FailureType.SYNTAX_ERROR:
            if _format(generation) is ResponseFormat.TEXT:
                return "no format was asked for: --jsbench-response-format=json_schema asks for JSON"
            return ""
        case FailureType.UNJUDGED:
            return "--jsbench-judge-timeout gives the judge more time"
        case FailureType.HALLUCINATION:
            return "forbid such fields with additionalProperties: false, or let them pass: --jsbench-extra-fields=allow"
        case FailureType.SCHEMA_VIOLATION:
            return _after_violation(verdict, generation, schema)
        case FailureType.NO_CALL | FailureType.UNKNOWN_TOOL | FailureType.WRONG_TOOL | FailureType.WRONG_DECISION:
            return ""
        case FailureType.INVALID_SCHEMA | None:
            return ""
        case _:
            assert_never(verdict.failure_type)


def _format(generation: Generation | None) -> ResponseFormat | None:
    sent = generation.sent if isinstance(generation, Completion) else None
    return None if sent is None else sent.response_format


def _after_fault(generation: Failed, params: GenerationParams) -> str:
    match generation.kind:
        case FaultKind.TIMEOUT:
            return f"--jsbench-timeout allows a call more than {params.timeout:g} s"
        case FaultKind.RATE_LIMITED:
            return "--jsbench-rpm and --jsbench-concurrency ask more slowly"
        case FaultKind.CONNECTION | FaultKind.SERVER | FaultKind.BAD_RESPONSE:
            return "see that the server answers; then run the case again, or with --jsbench-resume all that broke"
        case FaultKind.AUTH | FaultKind.QUOTA | FaultKind.BAD_REQUEST:
            return ""
        case FaultKind.ENGINE | FaultKind.HANG | FaultKind.CRASH:
            return ""
        case _:
            assert_never(generation.kind)


def _after_limit(generation: Generation | None, params: GenerationParams | None) -> str:
    text = generation.text if isinstance(generation, Completion) else ""
    if _repeats(text):
        return (
            "the answer repeats itself, so a higher limit would not help: ask a larger model, or bound what repeats "
            "there (maxLength, maxItems, named properties)"
        )
    limit = "" if params is None else f"={2 * params.max_tokens} (it is {params.max_tokens:,})"
    return f"raise the limit: --jsbench-max-tokens{limit}; a model's context may end sooner"


def _after_violation(verdict: Verdict, generation: Generation | None, schema: Schema | None) -> str:
    # by the keyword that was not held to, the first place of it
    blamed = {_blamed(violation): violation for violation in reversed(verdict.violations)}
    broken = [*reversed(blamed)][:_MOST_KEYWORDS]
    if not broken or {Note.ADAPTATION_LOSS, Note.NOT_ENFORCED} & set(verdict.notes):
        return ""
    if (response_format := _format(generation)) in {ResponseFormat.TEXT, ResponseFormat.JSON_OBJECT}:
        keywords = ", ".join(broken)
        return f"{response_format} enforces no {keywords}: --jsbench-response-format=json_schema sends the schema"
    if response_format is None:
        return ""
    if isinstance(generation, Completion) and _is_schema(generation.text, schema):
        return "the answer is a schema, and no instance of it: ask a larger model, or show one (--jsbench-shots=1)"
    ways: dict[str, list[str]] = {}
    for keyword in broken:
        way = _RESTATED.get(keyword) or _restated_here(blamed[keyword], schema)
        if way and not ("anyOf" in way and "anyOf" in broken):
            ways.setdefault(way, []).append(keyword)
    restated = ", ".join(f"{' and '.join(keywords)} as {way}" for way, keywords in ways.items())
    advice = f"say {restated}" if restated else "`jsbench probe` finds out what it holds to"
    them = "them" if len(broken) > 1 else "it"
    return f"the engine was sent {', '.join(broken)} and did not enforce {them}: {advice}; or ask a larger model"


def _repeats(text: str) -> bool:
    """Tell whether an answer ends with one unit many times over, or its end stands in it again and again."""
    units = ((length, max(_TIMES, -(-_REPEATED // length))) for length in range(1, _LONGEST_UNIT))
    if any(text.endswith(text[-length:] * times) for length, times in units):
        return True
    return len(text) >= _REPEATED and text.count(text[-_REPEATED:]) >= _TIMES


def _restated_here(violation: Violation, schema: Schema | None) -> str:
    """Name another way to say a bound or a pattern of the schema; empty where there is none."""
    way = tokens_of(violation.schema_path)
    node = follow(schema, way[:-1]) if isinstance(schema, Mapping) else None
    if not isinstance(node, Mapping):
        return ""
    least, most = node.get("minimum"), node.get("maximum")
    in_steps = node.get("type") == "integer" or "multipleOf" in node
    if violation.keyword in _BOUNDS and in_steps and isinstance(least, int) and isinstance(most, int):
        return "an enum of its values" if most - least <= _FEW else ""
    pattern = node.get("pattern")
    if violation.keyword == "pattern" and isinstance(pattern, str):
        if _LETTERED.search(pattern):
            return "one with [0-9] for \\d and [A-Za-z0-9_] for \\w"
        if not (pattern.startswith("^") and pattern.endswith("$")):
            return "one from ^ to $"
    return ""


def _blamed(violation: Violation) -> str:
    """Name the keyword that was not held to: the broken one, or the outermost in which it stands."""
    within = [keyword for keyword in keywords_on(tokens_of(violation.schema_path)) if keyword in _APPLYING]
    if violation.keyword not in _SHAPES:
        within = [keyword for keyword in within if keyword != "prefixItems"]
    within.sort(key="allOf".__eq__)  # which engines read into more often than into the others
    return printable((*within, violation.keyword)[0], 40)


def _is_schema(text: str, schema: Schema | None) -> bool:
    """Tell whether an answer says what a schema says, in keywords that name no property of its own schema."""
    answer: object = None
    with suppress(ValueError, RecursionError):
        answer = json.loads(text) if len(text) <= _LONGEST_LOOKED_AT else None
    if not isinstance(answer, Mapping):
        return False
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    foreign = answer.keys() - (properties.keys() if isinstance(properties, Mapping) else ())
    has_type = "type" in foreign and answer["type"] in _TYPES
    has_properties = "properties" in foreign and isinstance(answer["properties"], Mapping)
    return has_properties or (has_type and not foreign.isdisjoint(_OF_SCHEMAS))
