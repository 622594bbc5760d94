"""Suggest what the user can change after an attempt that did not pass, judging by its answer, schema and verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, assert_never

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.generations import (
    Completion,
    Decided,
    DeclineReason,
    Failed,
    FaultKind,
    FinishReason,
    Generation,
    GenerationParams,
    ResponseFormat,
    Sent,
)
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.schemas.keywords import keywords_on
from pytest_jsbench.schemas.pattern_syntax import describe_foreign_syntax
from pytest_jsbench.schemas.references import follow, tokens_of
from pytest_jsbench.schemas.schema_warnings import schema_faults
from pytest_jsbench.verdicts import NOT_REWRITTEN, WITHOUT_SCHEMA, FailureType, Note, Verdict
from pytest_jsbench.verdicts.judge import IN_REASONING
from pytest_jsbench.verdicts.tool_calls import CALL_IN_TEXT, FORBIDDEN, NOT_EXPECTED, ORDER, SEVERAL_CALLS
from pytest_jsbench.verdicts.verdicts import SyntaxReason, Violation

#: An answer repeats itself if its last 24 characters occur in it at least 4 times.
_REPEATED = 24
_TIMES = 4
_MOST_KEYWORDS = 3
#: Keywords that engines often do not enforce (docs/decoding-results.md), each with an alternative to suggest.
_RESTATED = {
    "format": "a pattern",
    **dict.fromkeys(("if", "then", "else", "dependentSchemas"), "branches of anyOf"),
    **dict.fromkeys(("dependentRequired", "dependencies"), "branches of anyOf"),
    "not": "what is allowed",
    "allOf": "one schema",
    "prefixItems": "named properties",
    **dict.fromkeys(("minProperties", "maxProperties", "propertyNames", "patternProperties"), "named properties"),
}
#: Keywords that may contain the violated keyword; an engine that ignores them also ignores everything in them.
_APPLYING = frozenset({"if", "then", "else", "dependentSchemas", "dependencies", "not", "allOf", "prefixItems"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
#: Keywords that llama.cpp ignores in a schema that also has branches, and the keywords that define branches.
_NEXT_TO_BRANCHES = frozenset({"properties", "required", "additionalProperties"})
_BRANCHES = frozenset({"anyOf", "oneOf"})
#: First word of the name that the engine `local` gives its grammar library.
_LLAMA_CPP = "llama.cpp"
#: Maximum difference between `minimum` and `maximum` for which an enum is suggested instead.
_FEW = 20
#: Regular expression for character classes that are written as a letter, such as \d.
_LETTERED = re.compile(r"\\[dDwWsS]")
_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
#: Keywords that may be violated because an enclosing `prefixItems` was not enforced.
_SHAPES = ("type", "required", "additionalProperties", "properties")
#: Length in characters from which repetitions of a text at the end of an answer are not detected.
_LONGEST_UNIT = 40
#: Keywords and types by which an answer is recognized as a schema, and the maximum length of answers that are checked.
_SCHEMA_KEYWORDS = ("properties", "required", "enum", "items", "$defs", "description")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_LONGEST_CHECKED = 20_000


#: Option that requests the schema as the response format.
_JSON_SCHEMA = "--jsbench-response-format=json_schema"
_SEND_SCHEMA = f"{_JSON_SCHEMA} sends the schema"
_ALONE = f"ask in the prompt for the JSON document only, or send the schema: {_JSON_SCHEMA}"
_REASONING = "--jsbench-reasoning=strip judges only the text after the reasoning"
_STRICT_JSON = f"ask for strict JSON (RFC 8259) in the prompt; {_SEND_SCHEMA}, and most engines then write valid JSON"
#: For each reason of a syntax error, what the user can change.
_AFTER_SYNTAX_ERROR: Mapping[str, str] = {
    SyntaxReason.TOO_LARGE: "lower --jsbench-max-tokens, or bound arrays and texts in the schema (maxItems, maxLength)",
    SyntaxReason.FENCE_FORBIDDEN: "--jsbench-fences=strip accepts a fence around the whole answer",
    SyntaxReason.FENCE_NOT_JSON: _ALONE,
    SyntaxReason.TOO_DEEP: "bound the recursion in the schema, or ask for less in the prompt",
    SyntaxReason.EMPTY: "raise --jsbench-max-tokens if the model reasons first; -v shows the prompt",
    SyntaxReason.BOM: "report it to the server's developers: RFC 8259 forbids a byte order mark",
    SyntaxReason.NAN_OR_INFINITY: "allow null or a text in the schema for values that no JSON number can express",
    SyntaxReason.NUMBER_OUT_OF_RANGE: "bound the number in the schema (minimum, maximum), or ask for it as a text",
    SyntaxReason.LONE_SURROGATE: "report it to the server's developers: the answer contains half of a surrogate pair",
    SyntaxReason.UNCLOSED_REASONING: "raise --jsbench-max-tokens, or turn reasoning off in the engine's options",
    SyntaxReason.REASONING_PREAMBLE: _REASONING,
    SyntaxReason.FENCE_NOT_ALONE: _ALONE,
    SyntaxReason.SEVERAL_DOCUMENTS: "ask for one document in the prompt, or make the schema an array of documents",
    SyntaxReason.TRAILING_TEXT: _ALONE,
    SyntaxReason.INCOMPLETE: "check why the server stopped early: it reported no token limit; -v shows the prompt",
    SyntaxReason.WHITE_SPACE: _STRICT_JSON,
    SyntaxReason.MALFORMED: _STRICT_JSON,
    SyntaxReason.PROSE: _ALONE,
    SyntaxReason.DUPLICATE_KEYS: "--jsbench-duplicate-keys=note accepts duplicate keys and uses the last value",
    FinishReason.REJECTED: "`jsbench probe` shows what the provider checks; or try another response format",
    IN_REASONING: "turn reasoning off in the engine's options, or use a server that returns reasoning separately",
}
_RESUME = "check that the server answers; then rerun the case, or all failed calls with --jsbench-resume"
_BREAKS_LIBRARY = (
    "simplify the schema (try --jsbench-adapt=narrow:openai), leave the case out, or report the schema to the "
    "decoding library; other cases are not affected"
)
#: For each kind of fault, what the user can change after a failed call.
_AFTER_FAULT: Mapping[str, str] = {
    FaultKind.RATE_LIMITED: "limit the rate with --jsbench-rpm, or lower --jsbench-concurrency",
    FaultKind.AUTH: "check the API key, and that it may use this model and address",
    FaultKind.QUOTA: "raise the account's quota or balance; --jsbench-resume then makes only the missing calls",
    FaultKind.BAD_REQUEST: "check the model's name and the engine's options against the server's message",
    FaultKind.ENGINE: "fix what the message names; `jsbench engines` lists the engines and their options",
    FaultKind.HANG: _BREAKS_LIBRARY,
    FaultKind.CRASH: _BREAKS_LIBRARY,
    **dict.fromkeys((FaultKind.CONNECTION, FaultKind.SERVER, FaultKind.BAD_RESPONSE), _RESUME),
}
#: Text of llama.cpp's server if its parser rejects an answer that the grammar of a pattern allowed
#: (findings/llama_server_patterns.sh).
_REJECTED_BY_PARSER = "does not match the expected peg-"
_AFTER_PARSER = (
    "in a pattern, list the allowed characters instead of [^…] or a dot: llama.cpp's grammar lets these match a "
    "quotation mark, and its parser then rejects the answer"
)
_SKIP = "or skip such cases with --jsbench-invalid-schemas=skip"


def next_step(
    verdict: Verdict, generation: Generation | None, params: GenerationParams | None, schema: Schema | None
) -> str:
    """Return what the user can change after an attempt; empty if the attempt passed."""
    match verdict.failure_type:
        case FailureType.API_ERROR:
            return _advise_after_fault(verdict, generation, params)
        case FailureType.TRUNCATED:
            return _advise_after_limit(generation, params)
        case FailureType.UNSUPPORTED_SCHEMA:
            return _advise_after_declining(verdict)
        case FailureType.REFUSAL:
            return "-v shows the refused prompt"
        case FailureType.SYNTAX_ERROR:
            return _advise_after_syntax_error(verdict, generation)
        case FailureType.UNJUDGED:
            return _advise_after_no_judgment(verdict)
        case FailureType.HALLUCINATION:
            return _advise_after_hallucination(verdict, generation, schema)
        case FailureType.SCHEMA_VIOLATION:
            return _advise_after_violation(verdict, generation, schema)
        case FailureType.NO_CALL | FailureType.UNKNOWN_TOOL | FailureType.WRONG_TOOL | FailureType.WRONG_ARGUMENTS:
            return _advise_after_calls(verdict.failure_type, verdict.reason, generation)
        case FailureType.WRONG_DECISION:
            return _advise_after_decision(generation)
        case FailureType.INVALID_SCHEMA:
            return _advise_after_invalid_schema(verdict, schema)
        case None:
            return ""
        case _:
            assert_never(verdict.failure_type)


_EXPLAIN_TOOLS = "explain in each tool's description when to call it"
_ASK_FOR_BOTH = "`jsbench probe --checks=format_with_tools` tests this"
_FORMAT_DROPPED = f"the server may drop the response format next to tools: {_ASK_FOR_BOTH}"
#: For each reason of a failure with tool calls, what the user can change.
_AFTER_CALLS: Mapping[str | None, str] = {
    CALL_IN_TEXT: "report it to the server's developers: its parser of tool calls does not fit the model's format",
    SEVERAL_CALLS: "report it to the server's developers, or allow several calls (parallel_tool_calls)",
    **dict.fromkeys((NOT_EXPECTED, FORBIDDEN, ORDER), f"{_EXPLAIN_TOOLS}, or correct what the case expects"),
}


def _advise_after_calls(
    failure_type: Literal[
        FailureType.NO_CALL, FailureType.UNKNOWN_TOOL, FailureType.WRONG_TOOL, FailureType.WRONG_ARGUMENTS
    ],
    reason: str | None,
    generation: Generation | None,
) -> str:
    if (advice := _AFTER_CALLS.get(reason)) is not None:
        return advice
    match failure_type:
        case FailureType.NO_CALL if _may_drop_format_or_tools(generation):
            return f"the server may drop the tools next to a response format: {_ASK_FOR_BOTH}"
        case FailureType.NO_CALL:
            return "require the call in the request (tool_choice), or explain in the prompt when to call the tool"
        case FailureType.UNKNOWN_TOOL:
            return "declare the tool in the request, or list the declared tools in the prompt"
        case FailureType.WRONG_TOOL:
            return f"allow the tool in tool_choice, or {_EXPLAIN_TOOLS}"
        case FailureType.WRONG_ARGUMENTS:
            return "describe the parameter in the tool's schema, or correct the arguments that the case expects"


def _find_sent(generation: Generation | None) -> Sent | None:
    return generation.sent if isinstance(generation, Completion) else None


def _format(generation: Generation | None) -> ResponseFormat | None:
    sent = _find_sent(generation)
    return None if sent is None else sent.response_format


def _may_drop_format_or_tools(generation: Generation | None) -> bool:
    """Return whether a server answered in text to a response format next to tools; servers often drop one of them."""
    if not isinstance(generation, Completion) or generation.sent is None or generation.calls:
        return False
    sent = generation.sent
    return sent.tools is not None and sent.response_format is ResponseFormat.JSON_SCHEMA and not sent.enforced_by


def _library(generation: Generation | None) -> str:
    """Return the name of the decoding library that constrained the answer; empty if unknown."""
    sent = _find_sent(generation)
    return "" if sent is None else printable(sent.enforced_by, 60)


def _advise_after_decision(generation: Generation | None) -> str:
    library = printable(generation.library, 60) if isinstance(generation, Decided) else ""
    return (
        f"report it with the schema to {library or 'the decoding library'}: no model can change what a grammar allows"
    )


def _advise_after_fault(verdict: Verdict, generation: Generation | None, params: GenerationParams | None) -> str:
    kind = generation.kind if isinstance(generation, Failed) else verdict.reason
    if kind == FaultKind.TIMEOUT:
        limit = "" if params is None else f" (it is {params.timeout:g} s)"
        return f"--jsbench-timeout allows a call more time{limit}"
    if kind == FaultKind.ENGINE and isinstance(generation, Failed) and _REJECTED_BY_PARSER in generation.message:
        return _AFTER_PARSER
    return _AFTER_FAULT.get(kind or "", _RESUME)


def _advise_after_declining(verdict: Verdict) -> str:
    if verdict.reason == DeclineReason.CONTEXT_LENGTH:
        return "use a model with a longer context, or shorten the prompt and the schema's descriptions"
    if verdict.reason == DeclineReason.UNSUPPORTED_MESSAGES:
        return "use an engine that accepts such messages, or write the conversation as one message"
    if verdict.reason == DeclineReason.UNSUPPORTED_TOOLS:
        return "use an engine that can offer tools; `jsbench engines` lists the engines"
    return "the engine does not accept this schema: change the part in the error message, or see `jsbench adapt`"


def _advise_after_syntax_error(verdict: Verdict, generation: Generation | None) -> str:
    sent = _find_sent(generation)
    if sent is not None and sent.response_format is ResponseFormat.TEXT and verdict.reason in _REASONS_IN_TEXT_FORMAT:
        if sent.by_application:
            # the endpoint passes the application's request on unchanged, whatever response format the run has
            return "the application's request named no format: add response_format (or text.format) to its call"
        return f"no response format was set: {_JSON_SCHEMA} requests JSON"
    step = _AFTER_SYNTAX_ERROR.get(verdict.reason or "", _STRICT_JSON)
    if _JSON_SCHEMA in step and _may_drop_format_or_tools(generation):
        return _FORMAT_DROPPED
    if _format(generation) is ResponseFormat.JSON_SCHEMA and _JSON_SCHEMA in step:
        engine = _library(generation) or "the engine"
        return f"{engine} received the schema, but did not enforce JSON: `jsbench probe` shows what is enforced"
    return step


#: Reasons of syntax errors that a response format for JSON prevents.
_REASONS_IN_TEXT_FORMAT = frozenset(
    {
        SyntaxReason.FENCE_NOT_JSON.value,
        SyntaxReason.FENCE_NOT_ALONE.value,
        SyntaxReason.SEVERAL_DOCUMENTS.value,
        SyntaxReason.TRAILING_TEXT.value,
        SyntaxReason.WHITE_SPACE.value,
        SyntaxReason.MALFORMED.value,
        SyntaxReason.PROSE.value,
        SyntaxReason.NAN_OR_INFINITY.value,
        None,
    }
)


def _advise_after_no_judgment(verdict: Verdict) -> str:
    if verdict.reason == "endless_reference":
        return "fix the schema: its references form an endless cycle; put a property between two references"
    if verdict.reason == "timeout":
        return "--jsbench-judge-timeout gives the judge more time"
    return "report this with the schema and the answer; until then, try --jsbench-judge-timeout or a smaller case"


def _advise_after_hallucination(verdict: Verdict, generation: Generation | None, schema: Schema | None) -> str:
    if verdict.valid is False:  # the schema already forbids these fields
        return _advise_after_violation(verdict, generation, schema)
    return "forbid such fields with additionalProperties: false, or accept them: --jsbench-extra-fields=allow"


def _advise_after_invalid_schema(verdict: Verdict, schema: Schema | None) -> str:
    if verdict.reason == NOT_REWRITTEN:
        return "compare the variants over the other cases; the summary lists the cases that are left out"
    if verdict.reason in WITHOUT_SCHEMA:
        return "give the test a schema: @pytest.mark.jsbench(schema=…)"
    if verdict.valid_in is not None:
        way = f"--jsbench-default-dialect={verdict.valid_in}, or `$schema` in the schema"
        return f"the schema is valid in {verdict.valid_in}: {way}; {_SKIP}"
    faults = [] if schema is None else schema_faults(schema, DRAFT_2020_12)
    if faults:
        return f"fix the schema: {printable(faults[0], 200)}; {_SKIP}"
    return f"fix the schema, {_SKIP}"


def _advise_after_limit(generation: Generation | None, params: GenerationParams | None) -> str:
    text = generation.text if isinstance(generation, Completion) else ""
    if _repeats(text):
        return (
            "the answer repeats itself, so a higher limit would not help: try a larger model, or bound the "
            "repeated part in the schema (maxLength, maxItems, named properties)"
        )
    limit = "" if params is None else f"={2 * params.max_tokens} (it is {params.max_tokens:,})"
    return f"raise the limit: --jsbench-max-tokens{limit}; the model's context may be smaller"


def _advise_after_violation(verdict: Verdict, generation: Generation | None, schema: Schema | None) -> str:
    if foreign := _foreign_pattern(verdict, schema):
        return foreign
    # map each keyword that was not enforced to its first violation
    blamed = {_find_unenforced_keyword(violation): violation for violation in reversed(verdict.violations)}
    broken = [*reversed(blamed)][:_MOST_KEYWORDS]
    keywords = ", ".join(broken) or "the schema"
    if Note.ADAPTATION_LOSS in verdict.notes:
        return f"not sent to the engine: {keywords}; state this in the prompt, or try --jsbench-adapt=verbatim"
    if Note.NOT_ENFORCED in verdict.notes:
        return "send the schema with the request: the engine or an adapter left it out"
    if (response_format := _format(generation)) in {ResponseFormat.TEXT, ResponseFormat.JSON_OBJECT}:
        return f"{response_format} does not enforce {keywords}: {_SEND_SCHEMA}"
    if response_format is None or not broken:
        return f"state in the prompt which values conform to {keywords}, or add an example answer; -v shows the prompt"
    if _may_drop_format_or_tools(generation):
        return _FORMAT_DROPPED
    library = _library(generation)
    # with a grammar, an answer that is a schema is the fault of the grammar and not of the model
    if not library and isinstance(generation, Completion) and _is_schema(generation.text, schema):
        return (
            "the answer is a schema, not an instance: try a larger model, or add an example answer (--jsbench-shots=1)"
        )
    rewrites: dict[str, list[str]] = {}
    for keyword in broken:
        rewrite = _RESTATED.get(keyword) or _suggest_keyword(blamed[keyword], schema)
        if not rewrite and library.startswith(_LLAMA_CPP) and _is_next_to_branches(blamed[keyword], schema):
            rewrite = "whole objects in each branch"
        if rewrite and not ("anyOf" in rewrite and "anyOf" in broken):
            rewrites.setdefault(rewrite, []).append(keyword)
    listed = ", ".join(f"{' and '.join(keywords)} as {rewrite}" for rewrite, keywords in rewrites.items())
    advice = f"rewrite {listed}" if listed else "`jsbench probe` shows which keywords are enforced"
    them = "them" if len(broken) > 1 else "it"
    problem = f"received keyword{'s' if len(broken) > 1 else ''} {', '.join(broken)}, but did not enforce {them}"
    if library:
        # a grammar decides which tokens are allowed, for any model
        return f"{library} {problem}: {advice}"
    return f"the engine {problem}: {advice}; or try a larger model"


def _foreign_pattern(verdict: Verdict, schema: Schema | None) -> str:
    """Return a next step if a violated pattern has syntax that is not plain ECMA-262; empty otherwise."""
    for violation in verdict.violations:
        tokens = tokens_of(violation.schema_path)
        pattern = follow(schema, tokens) if isinstance(schema, Mapping) and violation.keyword == "pattern" else None
        words = describe_foreign_syntax(pattern) if isinstance(pattern, str) else ""
        if words:
            return f"fix the pattern: it has {words}"
    return ""


def _repeats(text: str) -> bool:
    """
    Return whether an answer ends with many repetitions of a short text, or contains its last
    characters many times.
    """
    units = ((length, max(_TIMES, -(-_REPEATED // length))) for length in range(1, _LONGEST_UNIT))
    if any(text.endswith(text[-length:] * times) for length, times in units):
        return True
    return len(text) >= _REPEATED and text.count(text[-_REPEATED:]) >= _TIMES


def _suggest_keyword(violation: Violation, schema: Schema | None) -> str:
    """Return another way to write a violated bound or pattern of the schema; empty if none is known."""
    tokens = tokens_of(violation.schema_path)
    node = follow(schema, tokens[:-1]) if isinstance(schema, Mapping) else None
    if not isinstance(node, Mapping):
        return ""
    least = node.get("minimum")
    most = node.get("maximum")
    in_steps = node.get("type") == "integer" or "multipleOf" in node
    if violation.keyword in _BOUNDS and in_steps and isinstance(least, int) and isinstance(most, int):
        return "an enum of its values" if most - least <= _FEW else ""
    pattern = node.get("pattern")
    if violation.keyword == "pattern" and isinstance(pattern, str):
        if _LOOK_AROUND.search(pattern):
            return "one without look-around"
        if _LETTERED.search(pattern):
            return "one with [0-9] instead of \\d and [A-Za-z0-9_] instead of \\w"
        if not (pattern.startswith("^") and pattern.endswith("$")):
            return "one that starts with ^ and ends with $"
    return ""


def _is_next_to_branches(violation: Violation, schema: Schema | None) -> bool:
    """
    Return whether llama.cpp may ignore the violated keyword, because a schema on its path has both keywords of objects
    and `anyOf` or `oneOf`.
    """
    tokens = tokens_of(violation.schema_path)
    for length, keyword in enumerate(tokens):
        node = follow(schema, tokens[:length]) if isinstance(schema, Mapping) else None
        if isinstance(node, Mapping) and keyword in _NEXT_TO_BRANCHES | _BRANCHES:
            others = _NEXT_TO_BRANCHES if keyword in _BRANCHES else _BRANCHES
            if not others.isdisjoint(node):
                return True
    return False


def _find_unenforced_keyword(violation: Violation) -> str:
    """Return the keyword that was not enforced: the violated keyword, or the outermost keyword that contains it."""
    within = [keyword for keyword in keywords_on(tokens_of(violation.schema_path)) if keyword in _APPLYING]
    if violation.keyword not in _SHAPES:
        within = [keyword for keyword in within if keyword != "prefixItems"]
    within.sort(key="allOf".__eq__)  # engines support allOf more often than the other keywords
    return printable((*within, violation.keyword)[0], 40)


def _is_schema(text: str, schema: Schema | None) -> bool:
    """Return whether an answer is a schema, judging by keywords that are not properties in the schema of the case."""
    answer: object = None
    with suppress(ValueError, RecursionError):
        answer = json.loads(text) if len(text) <= _LONGEST_CHECKED else None
    if not isinstance(answer, Mapping):
        return False
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    foreign = answer.keys() - (properties.keys() if isinstance(properties, Mapping) else ())
    has_type = "type" in foreign and answer["type"] in _TYPES
    has_properties = "properties" in foreign and isinstance(answer["properties"], Mapping)
    return has_properties or (has_type and not foreign.isdisjoint(_SCHEMA_KEYWORDS))
