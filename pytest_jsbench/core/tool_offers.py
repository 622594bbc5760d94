"""
Define the tools that a case offers to a model, which of them may be called, and the calls that the case expects.

The judge checks each call by the schema of its tool, and the calls together by what the case expects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs

from pytest_jsbench.core.json_values import digest, to_json
from pytest_jsbench.core.text import printable

#: A JSON Schema, as in `cases`, which imports this module.
_Schema = bool | Mapping[str, Any]
#: Maximum length of a tool's name in a message.
_LONGEST_SHOWN = 60


class ToolMode(StrEnum):
    """Tool choices that do not name a tool."""

    #: The model decides whether it calls tools.
    AUTO = "auto"
    #: The model must call at least one tool.
    REQUIRED = "required"
    #: The model must not call a tool.
    NONE = "none"


class OfferedTool(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the model may call."""

    #: Name of the tool.
    name: str
    #: Description of the tool; empty if it has none.
    description: str = ""
    #: Schema of the arguments.
    parameters: _Schema
    #: Whether the server should enforce the schema; None for the engine's setting.
    strict: bool | None = None


class ExpectedCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that a correct answer contains."""

    #: Name of the tool.
    name: str
    #: Schema to which the arguments must conform, in addition to that of the tool.
    arguments: _Schema = True
    #: Names of arguments whose texts are compared without case, spaces and some punctuation: `arguments` has them in
    #: the form that `loose_text.loosen` returns.
    loose: tuple[str, ...] = ()


class ToolOffer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tools of a case, and the calls that it expects; an invalid offer raises ValueError."""

    #: Tools that the request declares; their names are unique.
    tools: tuple[OfferedTool, ...]
    #: A value of ToolMode, or the name of the tool that must be called.
    choice: str = ToolMode.AUTO.value
    #: Calls that a correct answer contains, and no others; empty if no tool must be called; None if this is not known.
    expected: tuple[ExpectedCall, ...] | None = None
    #: Whether a correct answer contains at least one call, of any tool; only if `expected` is None.
    some_call: bool = False
    #: Whether the expected calls must come in this order.
    in_order: bool = False
    #: Names of tools that must not be called.
    forbidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a duplicate tool or an unknown name."""
        counts = Counter(tool.name for tool in self.tools)
        if not counts:
            raise ValueError("tools is empty; expected at least one tool")
        name, count = counts.most_common(1)[0]
        if count > 1:
            raise ValueError(f"tools contains '{printable(name, _LONGEST_SHOWN)}' {count} times; expected unique names")
        if self.some_call and self.expected is not None:
            raise ValueError("the case expects both certain calls and any call; expected one of them")
        self._check_known("expected", (call.name for call in self.expected or ()))
        self._check_known("forbidden", self.forbidden)
        if self.choice not in list(ToolMode):
            self._check_known("tool_choice", (self.choice,))

    def _check_known(self, field: str, used: Iterable[str]) -> None:
        known = self.names
        for name in used:
            if name not in known:
                tools = printable(", ".join(known), 200)
                raise ValueError(f"{field} names the tool '{printable(name, _LONGEST_SHOWN)}'; offered are {tools}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the tools."""
        return tuple(tool.name for tool in self.tools)

    @property
    def mode(self) -> ToolMode | None:
        """The choice if it is one of the modes; None if it names a tool."""
        return ToolMode(self.choice) if self.choice in list(ToolMode) else None

    @property
    def allowed(self) -> tuple[str, ...]:
        """Names of the tools that the choice allows."""
        match self.mode:
            case ToolMode.NONE:
                return ()
            case None:
                return (self.choice,)
            case ToolMode.AUTO | ToolMode.REQUIRED:
                return self.names

    @property
    def required(self) -> bool:
        """Whether the choice requires a call."""
        return self.mode in (ToolMode.REQUIRED, None)

    @property
    def expects_call(self) -> bool | None:
        """Whether the case expects a call if the model decides; None if the case does not say."""
        return True if self.some_call else None if self.expected is None else bool(self.expected)

    @property
    def wants_call(self) -> bool:
        """Whether an answer without a call is wrong."""
        return self.required or bool(self.demanded) or (self.some_call and self.mode is ToolMode.AUTO)

    @property
    def demanded(self) -> tuple[ExpectedCall, ...] | None:
        """
        The expected calls as far as the choice allows them; None if any allowed calls are right.

        If the case expects no call and the choice requires one, or the choice names a tool that the case does not
        expect, any call that the choice allows is right.
        """
        if self.mode is ToolMode.NONE:
            return ()
        if self.expected is None or self.mode is ToolMode.AUTO:
            return self.expected
        return tuple(call for call in self.expected if call.name in self.allowed) or None

    def find(self, name: str) -> OfferedTool | None:
        """Return the tool with this name; None if it is not offered."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def with_choice(self, choice: str | None) -> ToolOffer:
        """Return the offer with the run's choice; raise ValueError if it names a tool that is not offered."""
        return self if choice is None else structs.replace(self, choice=choice)


def question_digest(schema: _Schema, offer: ToolOffer | None) -> str:
    """Return the digest of what an answer is judged by: the schema, and the tools if the case offers any."""
    return digest(schema) if offer is None else digest({"schema": schema, "offer": to_json(offer)})
