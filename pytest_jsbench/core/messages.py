"""
Define and validate the messages of a conversation, with tool calls and their results.

The accepted form is that of OpenAI's chat API; engines convert it to their own wire formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from pytest_jsbench.core.files import Unreadable, parse_json
from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.text import printable

Role = Literal["system", "developer", "user", "assistant", "tool"]
_ROLES = get_args(Role)

#: Roles that give instructions; `developer` is OpenAI's newer name for `system`.
INSTRUCTING = ("system", "developer")
_FIELDS = ("role", "content", "tool_calls", "tool_call_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call by the assistant to one of the application's functions."""

    id: str
    name: str
    #: Arguments as the model wrote them: the text of a JSON object.
    arguments: str

    @classmethod
    def of(cls, value: object) -> ToolCall:
        """
        Parse a call in the form of OpenAI's chat API, or return a given ToolCall; raise a ValueError that states the
        problem.
        """
        if isinstance(value, ToolCall):
            return value
        call = _fields_of(value)
        kind = call.get("type", "function")
        function = _fields_of(call.get("function"))
        if kind != "function":
            raise ValueError(f"type is {_format_value(kind)}; expected 'function'")
        made = cls(
            id=_text(call.get("id"), "id"),
            name=_text(function.get("name"), "function.name"),
            arguments=_text(function.get("arguments"), "function.arguments", may_be_empty=True),
        )
        try:
            if made.arguments and not isinstance(parse_json(made.arguments), dict):
                raise Unreadable("not a JSON object")
        except Unreadable as error:
            raise ValueError(f"function.arguments is {error.problem}; expected the text of a JSON object") from None
        return made

    @property
    def values(self) -> Mapping[str, Any]:
        """Arguments as JSON values; an empty text, which some models write, means that there are no arguments."""
        return cast("Mapping[str, Any]", parse_json(self.arguments)) if self.arguments else {}

    def to_dict(self) -> dict[str, Any]:
        """Return the call in the form of OpenAI's chat API."""
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message in a conversation."""

    role: Role
    #: Text of the message; empty if the assistant only called tools.
    content: str
    #: Tool calls of the assistant.
    tool_calls: tuple[ToolCall, ...] = ()
    #: Id of the call that a tool message answers; None for other messages.
    tool_call_id: str | None = None

    @classmethod
    def of(cls, value: object, *, exact: bool = True) -> Message:
        """
        Parse a message in the form of OpenAI's chat API, or return a given Message; raise a ValueError that states the
        problem.

        Unknown fields are ignored, unless `exact` is set.
        """
        if isinstance(value, Message):
            return value
        turn = _fields_of(value)
        role = turn.get("role")
        if role not in _ROLES:
            raise ValueError(f"role is {_format_value(role)}; expected one of {', '.join(_ROLES)}")
        if turn.get("function_call"):
            raise ValueError("function_call is an older form; expected tool_calls")
        calls = tuple(_calls(turn.get("tool_calls")))
        made = cls(
            role=cast("Role", role),
            content=_content(turn.get("content"), may_be_none=bool(calls)),
            tool_calls=calls,
            tool_call_id=_text(turn.get("tool_call_id"), "tool_call_id") if role == "tool" else None,
        )
        # Ignored here: the name in a tool message, which the call also contains, and the unset fields of SDK objects.
        given = [name for name in turn if turn[name] not in (None, "", [], ())]
        others = [name for name in given if name not in _FIELDS and (role, name) != ("tool", "name")]
        if (calls and role != "assistant") or ("tool_call_id" in given and role != "tool") or (exact and others):
            names = ", ".join(printable(str(name), 60) for name in given)
            allowed = {"assistant": "role, content and tool_calls", "tool": "role, content and tool_call_id"}
            raise ValueError(f"found {names}; expected {allowed.get(str(role), 'role and content')}")
        return made

    @property
    def texts(self) -> Iterator[str]:
        """All texts in the message that the model reads."""
        yield self.content
        for call in self.tool_calls:
            yield from (call.name, call.arguments)

    @property
    def shown(self) -> str:
        """The message for display: its text, followed by the calls."""
        calls = (f"{call.name}({call.arguments})" for call in self.tool_calls)
        return "\n".join([self.content] * bool(self.content or not self.tool_calls) + [*calls])

    def to_dict(self) -> dict[str, Any]:
        """Return the message in the form of OpenAI's chat API."""
        turn: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            turn |= {"content": self.content or None, "tool_calls": [call.to_dict() for call in self.tool_calls]}
        return turn if self.tool_call_id is None else {**turn, "tool_call_id": self.tool_call_id}


def read_messages(value: object, *, exact: bool = True) -> tuple[Message, ...]:
    """Parse a conversation from a list of messages; raise a ValueError that names the message and the wrong field."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or not value:
        message = f"messages is {'an empty list' if value == [] else _kind(value)}; expected a list of role and content"
        raise ValueError(message)
    turns = []
    for number, turn in enumerate(value):
        try:
            turns.append(Message.of(turn, exact=exact))
            check_encodable(turns[-1].content, "content")
            check_encodable("".join(turns[-1].texts), "tool_calls")
        except ValueError as error:
            raise ValueError(f"messages[{number}].{error}") from None
    check_calls(turns)
    return tuple(turns)


def check_calls(turns: Sequence[Message]) -> None:
    """
    Check that each call is followed by its result, as all providers require; raise a ValueError
    that names the message.
    """
    open_calls: dict[str, str] = {}
    for number, turn in enumerate(turns):
        if turn.role == "tool":
            if turn.tool_call_id not in open_calls:
                shown_id = _format_value(turn.tool_call_id)
                ids = ", ".join(open_calls)
                expected = f"the id of a call without a result ({ids})" if ids else "a call before this result"
                message = f"messages[{number}].tool_call_id is {shown_id}; expected {expected}"
                raise ValueError(message)
            del open_calls[str(turn.tool_call_id)]
            continue
        if open_calls:
            break
        open_calls = {call.id: f"messages[{number}].tool_calls[{at}]" for at, call in enumerate(turn.tool_calls)}
        if len(open_calls) < len(turn.tool_calls):
            raise ValueError(
                f"messages[{number}].tool_calls contains a duplicate id; expected a different id for each call"
            )
    for name, place in open_calls.items():
        message = (
            f"{place} has no result; expected a message of role tool after it, with tool_call_id {_format_value(name)}"
        )
        raise ValueError(message)


def check_encodable(text: str, name: str) -> None:
    """Raise a ValueError that names the text if it cannot be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} contains a lone surrogate, which cannot be sent") from None


def _fields_of(value: object) -> Mapping[str, Any]:
    """Return the fields of a mapping or of a Pydantic object from an SDK; empty for any other value."""
    if isinstance(value, Mapping):
        return value
    dumped = value.model_dump() if hasattr(value, "model_dump") else None
    return dumped if isinstance(dumped, Mapping) else {}


def _calls(value: object) -> Iterator[ToolCall]:
    if value is None:
        return
    if not isinstance(value, list | tuple):
        raise ValueError(f"tool_calls is {_kind(value)}; expected a list")
    for number, call in enumerate(value):
        try:
            yield ToolCall.of(call)
        except ValueError as error:
            raise ValueError(f"tool_calls[{number}].{error}") from None


def _content(value: object, *, may_be_none: bool) -> str:
    """Return the text of a message; several text parts are joined by line ends, as servers of open models do."""
    if value is None and may_be_none:
        return ""
    if not isinstance(value, list):
        return _text(value, "content", may_be_empty=True)
    parts = []
    for number, part in enumerate(value):
        fields = _fields_of(part)
        if fields.get("type") != "text":
            raise ValueError(f"content[{number}].type is {_format_value(fields.get('type'))}; expected 'text'")
        parts.append(_text(fields.get("text"), f"content[{number}].text", may_be_empty=True))
    return "\n".join(parts)


def _text(value: object, name: str, *, may_be_empty: bool = False) -> str:
    """Return the value if it is text; otherwise raise a ValueError that names the field."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {_kind(value)}; expected text")
    if not value and not may_be_empty:
        raise ValueError(f"{name} is empty; expected text")
    return value


def _kind(value: object) -> str:
    return f"a JSON {json_type(value)}"


def _format_value(value: object) -> str:
    return printable(repr(value), 60)
