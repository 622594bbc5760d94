"""
Read cases that offer tools to a model, and the calls that they expect.

A row has `tools` (a list of definitions, in any format that `tools` reads), a request in words (`ask`, `prompt` or
`messages`), and what is right: `expect`, `forbid`, or both. A document has `tools` and `cases`, which are such rows
without tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.loose_text import loosen
from pytest_jsbench.core.messages import Message, check_encodable, read_messages
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import ExpectedCall, OfferedTool, ToolMode, ToolOffer
from pytest_jsbench.datasets.base import ListedCase, as_schema
from pytest_jsbench.datasets.columns import ID_NAMES, SCHEMA_NAMES, as_json
from pytest_jsbench.datasets.sources import tools
from pytest_jsbench.schemas.references import follow

#: Fields that only a row with offered tools has; a request to a provider has `tools` and `messages`, too.
_OWN_FIELDS = ("ask", "expect", "forbid")
#: Fields of a document that apply to all its cases.
_SHARED_FIELDS = ("system", "tool_choice", "tags")
_FIELDS = frozenset(
    (*_OWN_FIELDS, *_SHARED_FIELDS, *ID_NAMES, *SCHEMA_NAMES, "task", "tools", "prompt", "messages", "reference",
     "in_order")
)  # fmt: skip
#: Word for an answer without a call.
_NO_CALL = "none"
#: Word for an answer with at least one call, of any tool.
ANY_CALL = "any"
#: Fields of a call in the form of an API.
_CALL_FIELDS = frozenset({"name", "arguments"})
#: Fields of an object that states the acceptable values of an argument.
_VALUE_FIELDS = frozenset({"any_of", "schema", "optional", "loose"})
#: Function that returns the tools of the source that a document names instead of containing definitions.
FindTools = Callable[[str], tuple[OfferedTool, ...]]


def is_row(value: object) -> bool:
    """Return whether an object is a row that offers tools."""
    return isinstance(value, Mapping) and "tools" in value and any(name in value for name in _OWN_FIELDS)


def is_document(value: object) -> bool:
    """Return whether an object is a document with cases; one without tools is completed by `SOURCE@TOOLS`."""
    if not isinstance(value, Mapping) or not isinstance(value.get("cases"), list):
        return False
    return "tools" in value or any(
        isinstance(row, Mapping) and any(name in row for name in _OWN_FIELDS) for row in value["cases"]
    )


def list_cases(
    document: Mapping[str, Any],
    *,
    task: str,
    where: str,
    read_document: Callable[[], object],
    find_tools: FindTools,
    offered: tuple[OfferedTool, ...] | None = None,
) -> Iterator[ListedCase]:
    """
    Yield the cases of a document; each is read from the document that `read_document` returns.

    `find_tools` returns the tools if the document only names their source. `offered` are the tools that the user
    chose for the document, instead of its own.
    """
    tools_of_document = _DocumentTools(find_tools, offered)
    for number, row in enumerate(document["cases"]):
        fields = row if isinstance(row, Mapping) else {}
        name = next((str(fields[field]) for field in ID_NAMES if fields.get(field)), _name_of(fields, number))
        read = partial(_read_case, read_document, tools_of_document, number)
        yield ListedCase(task=str(fields.get("task") or task), name=name, where=f"{where} case {number + 1}", read=read)


def _name_of(row: Mapping[str, Any], number: int) -> str:
    """Return the name of a case without an id: the names of its expected calls, or its number."""
    if row.get("expect") == ANY_CALL:
        return ANY_CALL
    try:
        expected = _read_expected(row)
    except Unreadable:
        expected = None
    if expected is None:
        return f"case-{number + 1}"
    return "+".join(dict.fromkeys(call.name for call in expected)) or _NO_CALL


class _DocumentTools:
    """The tools of a document, which all its cases share; they are read again only if the document was."""

    def __init__(self, find_tools: FindTools, chosen: tuple[OfferedTool, ...] | None) -> None:
        #: Returns the tools of a source that the document names.
        self.find_tools = find_tools
        #: Tools that the user chose instead of the document's own; None if there are none.
        self._chosen = chosen
        #: The document that was read last, and its tools.
        self._latest: tuple[object, tuple[OfferedTool, ...]] = (None, ())

    def of(self, document: Mapping[str, Any]) -> tuple[OfferedTool, ...]:
        """Return the tools for the cases of a document; raise Unreadable if it has none."""
        if self._chosen is not None:
            return self._chosen
        if "tools" not in document:
            message = "the document has no tools; add them, or set --jsbench-dataset=DOCUMENT@TOOLS"
            raise Unreadable(message, reason="bad_row")
        known, shared = self._latest
        if known is not document:
            shared = read_tools(document["tools"], self.find_tools)
            self._latest = (document, shared)
        return shared


def _read_case(
    read_document: Callable[[], object], tools_of_document: _DocumentTools, number: int, key: CaseKey
) -> Case:
    document = read_document()
    cases = document.get("cases") if isinstance(document, Mapping) else None
    if not isinstance(document, Mapping) or not isinstance(cases, list) or number >= len(cases):
        raise Unreadable("has changed since it was first read")
    row = cases[number]
    if not isinstance(row, Mapping):
        raise Unreadable(f"the case is a JSON {json_type(row)}; expected an object", reason="bad_row")
    offered = tools_of_document.of(document)
    if isinstance(names := row.get("tools"), list) and names and all(isinstance(name, str) for name in names):
        offered = _choose_tools(offered, names)
    elif names is not None:
        offered = read_tools(names, tools_of_document.find_tools)
    shared = {name: document[name] for name in _SHARED_FIELDS if name in document}
    return _build_case(key, {**shared, **row}, offered)


def _choose_tools(offered: Sequence[OfferedTool], names: Sequence[str]) -> tuple[OfferedTool, ...]:
    by_name = {tool.name: tool for tool in offered}
    if unknown := next((name for name in names if name not in by_name), None):
        known = printable(", ".join(by_name), 200)
        raise Unreadable(f"tools names '{printable(unknown, 60)}'; the document has {known}", reason="bad_row")
    return tuple(by_name[name] for name in names)


def case_of(key: CaseKey, row: Mapping[str, Any]) -> Case:
    """Return the case of a row that offers tools; raise Unreadable if a part of the row is invalid."""
    return _build_case(key, row, read_tools(row["tools"], _find_no_tools))


def _find_no_tools(source: str) -> tuple[OfferedTool, ...]:
    shown = printable(source, 60)
    raise Unreadable(f"tools is the text '{shown}'; expected a list of tool definitions", reason="bad_row")


def _build_case(key: CaseKey, row: Mapping[str, Any], offered: tuple[OfferedTool, ...]) -> Case:
    if unknown := next((name for name in row if name not in _FIELDS), None):
        known = ", ".join(sorted(_FIELDS))
        message = f"unknown field '{printable(str(unknown), 60)}' in a case with tools; expected any of {known}"
        raise Unreadable(message, reason="bad_row")
    schema_name = next((name for name in SCHEMA_NAMES if row.get(name) is not None), None)
    try:
        offer = ToolOffer(
            tools=offered,
            choice=read_choice(row.get("tool_choice")),
            expected=_read_expected(row),
            some_call=row.get("expect") == ANY_CALL,
            in_order=row.get("in_order") is True,
            forbidden=_read_names(row.get("forbid"), "forbid"),
        )
        messages = _read_messages(row)
    except ValueError as error:
        raise Unreadable(str(error), reason="bad_row") from None
    return Case(
        key=key,
        schema=True if schema_name is None else as_schema(row[schema_name]),
        messages=messages,
        reference=as_json(row.get("reference"), "reference"),
        tags=_read_names(row.get("tags"), "tags"),
        offer=offer,
    )


def read_tools(value: object, find_tools: FindTools) -> tuple[OfferedTool, ...]:
    """
    Return the tools of a row or document, which has their definitions or names a source that `find_tools` reads.

    Raise Unreadable if there are no tools, or one has no JSON Schema for its arguments.
    """
    return find_tools(value) if isinstance(value, str) else offer_definitions(value)


def offer_definitions(document: object) -> tuple[OfferedTool, ...]:
    """
    Return the tools that definitions in the format of any provider, SDK or MCP server describe.

    Raise Unreadable if there are no tools, or one has no JSON Schema for its arguments.
    """
    definitions = tools.read_definitions(document)
    arguments = (
        [] if definitions is None else [each for each in definitions.schemas if each.part is tools.Part.ARGUMENTS]
    )
    if definitions is None or not arguments:
        raise Unreadable("tools contains no tool definition with a JSON Schema for its arguments", reason="bad_row")
    if definitions.skipped:
        names = printable(", ".join(definitions.skipped), 200)
        raise Unreadable(f"tools contains tools without a JSON Schema for their arguments: {names}", reason="bad_row")
    return tuple(_offer(document, definition) for definition in arguments)


def _offer(document: object, definition: tools.Definition) -> OfferedTool:
    tool = follow(document, definition.tool)
    description = tool.get("description")
    strict = tool.get("strict")
    return OfferedTool(
        name=str(definition.name),
        description=description if isinstance(description, str) else "",
        parameters=tools.schema_of(document, definition),
        strict=strict if isinstance(strict, bool) else None,
    )


def read_choice(value: object) -> str:
    """Return a tool choice, also in the form of OpenAI's or Anthropic's API; raise ValueError for other forms."""
    if value is None:
        return ToolMode.AUTO.value
    if isinstance(value, Mapping):
        function = value.get("function")
        named = function.get("name") if isinstance(function, Mapping) else value.get("name")
        value = (
            {"any": ToolMode.REQUIRED.value}.get(str(value.get("type")), value.get("type")) if named is None else named
        )
    if not isinstance(value, str):
        raise ValueError(f"tool_choice is a JSON {json_type(value)}; expected auto, required, none or a tool's name")
    return value


def _read_expected(row: Mapping[str, Any]) -> tuple[ExpectedCall, ...] | None:
    """Return the expected calls of a row; None if the row does not say which calls are right."""
    if "expect" not in row or row["expect"] == ANY_CALL:
        return None
    value = row["expect"]
    if value is None or value == _NO_CALL:
        return ()
    return tuple(_calls_in(value))


def _calls_in(value: object) -> Iterator[ExpectedCall]:
    """Yield the calls that a value of `expect` describes."""
    match value:
        case str():
            yield ExpectedCall(name=value)
        case list():
            for part in value:
                yield from _calls_in(part)
        case Mapping() if value.keys() <= _CALL_FIELDS and isinstance(value.get("name"), str):
            yield _expect_call(value["name"], value.get("arguments"))
        case Mapping():
            for name, arguments in value.items():
                yield _expect_call(str(name), arguments)
        case _:
            right = "a tool's name, a call, none, any, or a list of calls"
            message = f"expect contains a JSON {json_type(value)}; expected {right}"
            raise Unreadable(message, reason="bad_row")


def _expect_call(name: str, arguments: object) -> ExpectedCall:
    """Return the call of a tool with these arguments; each may be an object that states which values are acceptable."""
    if arguments is None or arguments == {}:
        return ExpectedCall(name=name)
    if not isinstance(arguments, Mapping):
        message = f"the arguments of an expected call are a JSON {json_type(arguments)}; expected an object"
        raise Unreadable(message, reason="bad_row")
    stated = {str(argument): value for argument, value in arguments.items() if _states_values(value)}
    schema = {
        "type": "object",
        "properties": {str(argument): _schema_of_value(value) for argument, value in arguments.items()},
        "required": [
            str(argument) for argument in arguments if stated.get(str(argument), {}).get("optional") is not True
        ],
    }
    loose = tuple(argument for argument, value in stated.items() if value.get("loose") is True)
    return ExpectedCall(name=name, arguments=schema, loose=loose)


def _schema_of_value(value: Any) -> Any:
    if not _states_values(value):
        return {"const": value}
    if "any_of" not in value:
        return as_schema(value["schema"])
    values = list(value["any_of"])
    return {"enum": loosen(values) if value.get("loose") is True else values}


def _states_values(value: Any) -> bool:
    """Return whether an argument is an object such as `{any_of: [1, 2]}` or `{schema: {type: integer}}`."""
    if not isinstance(value, Mapping) or not value.keys() <= _VALUE_FIELDS:
        return False
    has_values = isinstance(value.get("any_of"), list)
    if "loose" in value and not has_values and value.keys() & {"any_of", "schema"}:
        message = "an argument has loose without a list of values; expected {any_of: […], loose: true}"
        raise Unreadable(message, reason="bad_row")
    return has_values != isinstance(value.get("schema"), Mapping | bool)


def _read_names(value: object, field: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unreadable(f"{field} is not a text or a list of texts", reason="bad_row")
    return tuple(names)


def _read_messages(row: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the conversation of a row; raise ValueError if it has none, or several."""
    present = [name for name in ("ask", "prompt", "messages") if row.get(name) is not None]
    if len(present) != 1:
        found = " and ".join(present) or "none of them"
        raise ValueError(f"expected one of ask, prompt and messages; found {found}")
    field = present[0]
    turns = read_messages(row[field], exact=False) if field == "messages" else (_message("user", row[field], field),)
    return turns if row.get("system") is None else (_message("system", row["system"], "system"), *turns)


def _message(role: Any, text: object, field: str) -> Message:
    if not isinstance(text, str) or not text:
        raise ValueError(f"{field} is {'empty' if text == '' else f'a JSON {json_type(text)}'}; expected text")
    check_encodable(text, field)
    return Message(role=role, content=text)
