"""Assemble an answer from a whole body or from the events of a stream: text, calls, reasoning, usage, finish reason."""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING, assert_never

from msgspec import structs

from pytest_jsbench.core.generations import (
    CalledTool,
    CallError,
    Completion,
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    ServedBy,
    Usage,
)
from pytest_jsbench.core.secret_masking import one_line
from pytest_jsbench.core.text import format_count, printable, shorten
from pytest_jsbench.engines.http.calls import count, get
from pytest_jsbench.engines.providers.finish_reasons import NOT_GIVEN, format_word
from pytest_jsbench.engines.providers.tool_calls import FIRST, CallsByIndex, PartialCall, Place, join_pieces, tool_name
from pytest_jsbench.verdicts import JudgePolicy
from pytest_jsbench.verdicts.answer_text import NotJson, read_answer, start_of_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_jsbench.core.generations import Sent
    from pytest_jsbench.core.timing import Stopwatch
    from pytest_jsbench.engines.http.answers import ArrivingEvents
    from pytest_jsbench.engines.providers.finish_reasons import FinishReasons, Meaning

#: Policy that accepts every answer which contains a complete document.
_LENIENT = JudgePolicy(reasoning="strip")
#: Maximum number of unknown kinds of content listed in an error message.
_MAX_NAMED_KINDS = 5
#: Maximum length of the name of a model, a configuration or a provider.
_LONGEST_NAME = 200


#: Service tiers with the standard price, and `batch`, because the price of batches is known without the tier.
_ORDINARY_TIERS = ("auto", "default", "standard", "on_demand", "unspecified", "batch")


def read_tier(value: object) -> str | None:
    """Return the service tier if it has its own price; None for any other tier."""
    tier = format_word(value).lower() if isinstance(value, str) else ""
    return None if tier in ("", *_ORDINARY_TIERS) else tier


def _read_name(value: object) -> str:
    """Return a name in a server's answer, safe to print and of limited length; empty if it is not a text."""
    return printable(value, _LONGEST_NAME) if isinstance(value, str) else ""


def _check_complete(word: str, text: str) -> None:
    """Raise CallError unless the text is one JSON document: a truncated answer is not the model's failure."""
    if isinstance(read_answer(text, _LENIENT), NotJson):
        ending = f"the server's finish reason '{word}' does not mean that the answer is complete"
        if word == NOT_GIVEN:
            ending = "the server gave no finish reason"
        message = f"{ending}, and the text is not one JSON document; {format_count(len(text), 'character')} dropped"
        raise CallError(FaultKind.BAD_RESPONSE, one_line(message))


class AnswerBuilder:
    """The pieces of one answer, as they arrive."""

    __slots__ = (
        *(
            "_arrival_times",
            "_provider_tools",
            "_comments",
            "_finish",
            "_finish_reasons",
            "_next_number",
            "_not_text",
            "_numbers",
        ),
        "_pieces",
        "_reasoning",
        "_refusal",
        "_stream",
        "_texts",
        "_unknown",
        "_watch",
        "by_index",
        "calls",
        "counts",
        "kinds",
        "served_by",
        "server_times",
        "usage",
    )

    def __init__(
        self, watch: Stopwatch, *, finish_reasons: FinishReasons, stream: ArrivingEvents | None = None
    ) -> None:
        self._watch = watch
        #: Meanings of the wire format's finish reasons.
        self._finish_reasons = finish_reasons
        #: The stream that is being read; None if the answer is not streamed.
        self._stream = stream
        #: Pieces of text and of arguments, in the order of their arrival.
        self._pieces: list[str] = []
        #: Time of arrival of each piece.
        self._arrival_times: list[float] = []
        #: Pieces of text, by place.
        self._texts: dict[Place, list[str]] = {}
        #: Places of calls of the provider's tools; text before such a call is not the answer.
        self._provider_tools: set[Place] = set()
        #: Numbers of items that contain the model's commentary instead of the answer.
        self._comments: set[int] = set()
        #: Calls of the client's tools, by place.
        self.calls: dict[Place, PartialCall] = {}
        #: Kinds of the blocks or items so far, by number.
        self.kinds: dict[int, str] = {}
        #: Finds the place of a call in a stream of Chat Completions.
        self.by_index = CallsByIndex(self.calls)
        #: Numbers of items, by the item's identifier.
        self._numbers: dict[str, int] = {}
        self._next_number = 0
        self._not_text = False
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        #: Unknown kinds of content, in order of arrival.
        self._unknown: dict[str, None] = {}
        #: The finish reason, its meaning, and the server's explanation; None if not received yet.
        self._finish: tuple[str, Meaning, str] | None = None
        self.usage = Usage()
        #: Times measured by the server, in seconds, by the field names of `Timing`.
        self.server_times: dict[str, float] = {}
        #: What the server says about itself; None if it has said nothing yet.
        self.served_by: ServedBy | None = None
        #: Token counts, by the API's own names.
        self.counts: dict[str, int] = {}

    def number_of_item(self, index: int | None, identifier: str | None) -> int:
        """
        Return an item's number: its index, the number for its identifier, or the last item's number
        if it has neither.
        """
        if index is None:
            if identifier is None:
                index = max(self._next_number - 1, 0)
            else:
                index = self._numbers.get(identifier, self._next_number)
        if identifier is not None:
            self._numbers.setdefault(identifier, index)
        self._next_number = max(self._next_number, index + 1)
        return index

    def new_number(self) -> int:
        """Return a number greater than the numbers of all items so far."""
        self._next_number += 1
        return self._next_number - 1

    def store_counts(self, usage: object, names: Iterable[str]) -> None:
        """Store the token counts with these names; a later 0 does not replace a count."""
        for name in names:
            value = count(get(usage, name))
            if value or (value is not None and name not in self.counts):
                self.counts[name] = value

    def update_usage(self, usage: Usage) -> None:
        """Update the usage with the usage in a later event."""
        self.usage = self.usage.updated(usage)

    def set_served_by(self, *, model: object, fingerprint: object = None, provider: object = None) -> None:
        """Store which model, configuration and provider the server names; only the first statement is kept."""
        if self.served_by is None and (model or fingerprint or provider):
            self.served_by = ServedBy(
                model=_read_name(model), fingerprint=_read_name(fingerprint), provider=_read_name(provider)
            )

    def add_text(self, piece: object, place: Place = FIRST) -> None:
        """Add a piece of text at its place; an empty piece is ignored and does not count as the first token."""
        if arrived := self._record_arrival(piece):
            self._texts.setdefault(place, []).extend(arrived)

    def complete_text(self, text: object, place: Place) -> None:
        """Set the complete text at this place, which replaces the pieces unless it is empty."""
        pieces = self._texts.get(place)
        if pieces is None:
            self.add_text(text, place)
        elif isinstance(text, str) and text:
            pieces[:] = [text]

    def set_provider_tool(self, place: Place) -> None:
        """Record that the provider ran one of its tools at this place; text before this place is not the answer."""
        self._provider_tools.add(place)

    def set_comment(self, number: int) -> None:
        """Record that this item contains the model's commentary, not the answer."""
        self._comments.add(number)

    def note_unknown(self, kind: object) -> None:
        """Record an unknown kind of content, to be listed in the error if the answer has no other content."""
        self._unknown[format_word(kind)] = None

    def add_call(
        self,
        place: Place,
        *,
        identifier: object = None,
        name: object = None,
        arguments: object = None,
        default: object = None,
    ) -> None:
        """Add pieces of a name or of arguments to the call at this place; `default` is used if no arguments follow."""
        call = self.calls.setdefault(place, PartialCall())
        call.id = identifier or call.id
        if isinstance(name, str) and name:
            call.names.append(name)
        call.pieces += self._record_arrival(arguments)
        if default is not None:
            call.default = default if isinstance(default, str) else self._encode(default)

    def complete_call(self, place: Place, *, name: object = None, arguments: object = None) -> None:
        """Set the complete name and arguments of the call at this place, unless they are empty."""
        call = self.calls.setdefault(place, PartialCall())
        if isinstance(name, str) and name:
            call.names = [name]
        if not call.pieces:
            call.pieces += self._record_arrival(call.default if arguments in (None, "") else arguments)
        elif isinstance(arguments, str) and arguments:
            call.pieces = [arguments]

    def _encode(self, value: object) -> str:
        """Encode a JSON value that the server sent instead of a text."""
        self._not_text = True
        return json.dumps(value, ensure_ascii=False)

    def _record_arrival(self, piece: object) -> list[str]:
        """Record the arrival of a piece, and return a list with the piece; the list is empty if the piece is empty."""
        if piece is None or piece == "":
            return []
        text = piece if isinstance(piece, str) else self._encode(piece)
        if self._stream is not None:
            if not self._arrival_times:
                self._stream.mark_first_content()
            self._arrival_times.append(self._watch.token(piece=self._stream.pieces))
        self._pieces.append(text)
        return [text]

    def begin_reasoning(self) -> None:
        """Record that the model has begun to reason; the provider may never send the text of the reasoning."""
        if self._stream is not None:
            self._watch.reasoning(piece=self._stream.pieces)

    def add_reasoning(self, piece: object) -> None:
        """Add a piece of reasoning, which is not part of the answer."""
        if isinstance(piece, str) and piece:
            self.begin_reasoning()
            self._reasoning.append(piece)

    @property
    def reasoned(self) -> bool:
        """True if some text of reasoning has arrived."""
        return bool(self._reasoning)

    @property
    def refused(self) -> bool:
        """True if a refusal has arrived."""
        return bool(self._refusal)

    @property
    def empty(self) -> bool:
        """True if no text, argument or refusal has arrived yet."""
        return not self._pieces and not self._refusal

    @property
    def progress(self) -> str:
        """Description, for a message, of the part of a stream that has arrived; empty if nothing has arrived."""
        if not self._arrival_times:
            return ""
        text = join_pieces(self._pieces)
        return f"after {format_count(len(text), 'character')} in {self._watch.stop().tgt:.2f} s: {shorten(text)}"

    def add_refusal(self, piece: object) -> None:
        """Add a piece of the provider's refusal."""
        if isinstance(piece, str) and piece:
            self._refusal.append(piece)

    def set_finish_reason(self, word: object, detail: object = None) -> None:
        """
        Set the finish reason, and the server's explanation.

        A later reason replaces an earlier reason, but `stop` replaces only an unknown reason, because some servers add
        `stop` to each event.
        """
        text = format_word(word)
        meaning = self._finish_reasons.meaning(text) if isinstance(word, str) else FinishReason.UNKNOWN
        if meaning is FinishReason.STOP and self._finish is not None and self._finish[1] is not FinishReason.UNKNOWN:
            return
        self._finish = text, meaning, detail if isinstance(detail, str) else ""

    def end_without_reason(self) -> None:
        """Record that the answer is complete although it has no finish reason; an empty answer stays incomplete."""
        if self._finish is None and (self.calls or not self.empty):
            self._finish = NOT_GIVEN, FinishReason.UNKNOWN, ""

    def to_generation(self, sent: Sent) -> Completion | Declined:
        """Return the assembled answer; raise CallError if the answer is missing or incomplete."""
        for place, call in self.calls.items():
            if not call.pieces and call.default:
                self.complete_call(place)
        if refusal := join_pieces(self._refusal):
            return self._decline(refusal, sent)
        characters = sum(map(len, self._pieces))
        if self._finish is None:
            message = f"the answer ended without a finish reason; {format_count(characters, 'character')} dropped"
            raise CallError(FaultKind.BAD_RESPONSE, message, was_truncated=True)
        word, meaning, detail = self._finish
        match meaning:
            case FaultKind():
                message = f"the server ended the answer with '{word}'{detail and ': '}{detail}"
                raise CallError(meaning, one_line(f"{message}; {format_count(characters, 'character')} dropped"))
            case DeclineReason():
                return self._decline(detail or "the model's provider refused to answer", sent)
            case FinishReason.CONTENT_FILTER if not characters:
                return self._decline(detail or f"the provider's content filter blocked the answer ({word})", sent)
            case FinishReason():
                return self._completion(meaning, word, sent)
            case _:
                assert_never(meaning)

    def _completion(self, finish: FinishReason, word: str, sent: Sent) -> Completion:
        arrived = None if self._stream is None else self._stream.first_content_at
        timing = self._watch.stop(answer=self._find_answer_arrival(join_pieces(self._pieces)), arrived=arrived)
        content, beside = self._content()
        calls = self._build_calls(sent)
        if finish is FinishReason.UNKNOWN:
            _check_complete(word, calls[-1].arguments if calls else content)
        if self._unknown and not (content or calls or self._reasoning) and finish is not FinishReason.LENGTH:
            kinds = ", ".join(list(self._unknown)[:_MAX_NAMED_KINDS])
            message = f"the answer has no text and no call, only content of unknown kinds: {kinds}"
            raise CallError(FaultKind.BAD_RESPONSE, message)
        return Completion(
            text="\n".join(call.arguments for call in calls) if calls else content,
            finish_reason=finish,
            timing=structs.replace(timing, **self.server_times),
            usage=self.usage,
            sent=sent,
            reasoning=join_pieces(self._reasoning),
            calls=calls,
            beside=beside + content if calls else beside,
            not_text=self._not_text,
            finish_word=word if finish is FinishReason.UNKNOWN else "",
            served_by=self.served_by,
        )

    def _content(self) -> tuple[str, str]:
        """Return the text of the answer, and the text before the last tool that the provider ran."""
        last = max(self._provider_tools, default=None)
        before: list[str] = []
        after: list[str] = []
        for place, pieces in sorted(self._texts.items()):
            is_before = (last is not None and place <= last) or place[0] in self._comments
            (before if is_before else after).extend(pieces)
        if not join_pieces(after).strip():
            return join_pieces([*before, *after]), ""
        return join_pieces(after), join_pieces(before)

    def _build_calls(self, sent: Sent) -> tuple[CalledTool, ...]:
        declared = () if sent.tools is None else sent.tools.schemas
        return tuple(
            CalledTool(name=tool_name(call.names, declared), arguments=call.arguments)
            for _, call in sorted(self.calls.items(), key=lambda item: item[0])
        )

    def _find_answer_arrival(self, text: str) -> float | None:
        """Return the time at which the answer began after reasoning; None if the text does not begin with reasoning."""
        start = start_of_answer(text) if self._arrival_times else None
        if start is None:
            return None
        ends = accumulate(map(len, self._pieces))
        return next(at for at, end in zip(self._arrival_times, ends, strict=True) if end > start)

    def _decline(self, message: str, sent: Sent) -> Declined:
        return Declined(
            reason=DeclineReason.REFUSAL,
            message=one_line(message),
            timing=self._watch.stop(),
            usage=self.usage,
            sent=sent,
        )
