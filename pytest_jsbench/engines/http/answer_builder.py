"""
An answer while it arrives over HTTP, and what it comes to.

Bodies are read as plain JSON values: an SDK's types would cost several times as much as the rest of a call, and would
have to be doubted all the same, since an SDK builds them of whatever a server says.
"""

from __future__ import annotations

import json
from itertools import accumulate
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import (
    CalledTool,
    CallError,
    Completion,
    Declined,
    DeclineReason,
    FaultKind,
    FinishReason,
    Usage,
)
from pytest_jsbench.core.secrets import one_line
from pytest_jsbench.core.text import counted, shortened
from pytest_jsbench.engines.http.values import count, get
from pytest_jsbench.verdicts.json_text import start_of_answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_jsbench.core.generations import Sent, Stopwatch
    from pytest_jsbench.engines.http.event_stream import EventStream


class AnswerBuilder:
    """Collects the pieces of one answer."""

    __slots__ = (
        *("_arrived", "_content", "_finish", "_not_text", "_pieces", "_reasoning", "_refusal", "_stream", "_watch"),
        *("_ids", "calls", "counts", "usage"),
    )

    def __init__(self, watch: Stopwatch, *, stream: EventStream | None = None) -> None:
        self._watch = watch
        #: what it is read out of; None where it comes in one piece
        self._stream = stream
        #: of the content and of the calls' arguments, as they came
        self._pieces: list[str] = []
        #: when each of them came
        self._arrived: list[float] = []
        self._content: list[str] = []
        #: of each tool that is called, by the call's place: its name, and the pieces of its arguments
        self.calls: dict[object, tuple[list[str], list[str]]] = {}
        self._ids: dict[object, object] = {}
        self._not_text = False
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._finish: FinishReason | None = None
        self.usage = Usage()
        #: of tokens, by the API's own names
        self.counts: dict[str, int] = {}

    def note(self, usage: object, names: Iterable[str]) -> None:
        """Take the counts that are given; those of a later event are the sum so far."""
        given = {name: count(get(usage, name)) for name in names}
        self.counts.update({name: value for name, value in given.items() if value is not None})

    def add(self, piece: object) -> None:
        """A piece of content; what is empty is not one, and starts no clock."""
        self._content += self._arrive(piece)

    def call(
        self, place: object, *, own: object = None, name: object = None, arguments: object = None, whole: object = None
    ) -> None:
        """
        A tool's name, a piece of its arguments, or the whole of them unless pieces have come, of the call there.

        One whose `own` id is not that of the call there is another.
        """
        place = place if isinstance(place, int | str) else 0
        if own and own != self._ids.setdefault(place, own):
            self.calls[place, len(self.calls)], self._ids[place] = self.calls.pop(place), own
        names, pieces = self.calls.setdefault(place, ([], []))
        names += [name] if isinstance(name, str) and name else []
        pieces += self._arrive(arguments if pieces or whole is None else whole)

    def _arrive(self, piece: object) -> list[str]:
        """The piece, which has come; a JSON value that stands in the place of a text is written as one."""
        if piece is None or piece == "":
            return []
        if not isinstance(piece, str):
            piece, self._not_text = json.dumps(piece, ensure_ascii=False), True
        if self._stream is not None:
            self._arrived.append(self._watch.token(piece=self._stream.pieces))
        self._pieces.append(piece)
        return [piece]

    def begin_reasoning(self) -> None:
        """The model has begun to reason, though its provider may never show what it says."""
        if self._stream is not None:
            self._watch.reasoning(piece=self._stream.pieces)

    def reason(self, piece: object) -> None:
        """A piece of reasoning, which is no content."""
        if isinstance(piece, str) and piece:
            self.begin_reasoning()
            self._reasoning.append(piece)

    @property
    def reasoned(self) -> bool:
        """True once a text of reasoning has come."""
        return bool(self._reasoning)

    @property
    def empty(self) -> bool:
        """True until a text or a refusal has come."""
        return not self._pieces and not self._refusal

    @property
    def begun(self) -> str:
        """Describe what had come when a stream broke off; empty where nothing had."""
        if not self._arrived:
            return ""
        text = "".join(self._pieces)
        return f"after {counted(len(text), 'character')} in {self._watch.stop().tgt:.2f} s: {shortened(text)}"

    def refuse(self, piece: object) -> None:
        """A piece of the provider's refusal."""
        if isinstance(piece, str) and piece:
            self._refusal.append(piece)

    def end(self, reason: FinishReason) -> None:
        """Note why the text ended."""
        self._finish = reason

    def to_generation(self, sent: Sent) -> Completion | Declined:
        """Return the answer, now that nothing more comes."""
        arrived, content = "".join(self._pieces), "".join(self._content)
        timing = self._watch.stop(answer=self._answer_arrived(arrived))
        if refusal := "".join(self._refusal):
            return self._declined(refusal, sent)
        if self._finish is None:
            message = f"the answer broke off without a finish reason; {len(arrived)} characters of it were dropped"
            raise CallError(FaultKind.BAD_RESPONSE, message, broke_off=True)
        if self._finish is FinishReason.CONTENT_FILTER and not arrived:
            return self._declined("the provider's content filter let nothing through", sent)
        calls = tuple(
            CalledTool(name="".join(names[:1]), arguments="".join(pieces)) for names, pieces in self.calls.values()
        )
        return Completion(
            text="\n".join(call.arguments for call in calls) if calls else content,
            finish_reason=self._finish,
            timing=timing,
            usage=self.usage,
            sent=sent,
            reasoning="".join(self._reasoning),
            calls=calls,
            beside=content if calls else "",
            not_text=self._not_text,
        )

    def _answer_arrived(self, text: str) -> float | None:
        """Find when the answer itself came, in a stream of content that begins with reasoning; None in any other."""
        start = start_of_answer(text) if self._arrived else None
        if start is None:
            return None
        ends = accumulate(map(len, self._pieces))
        return next(at for at, end in zip(self._arrived, ends, strict=True) if end > start)

    def _declined(self, message: str, sent: Sent) -> Declined:
        return Declined(
            reason=DeclineReason.REFUSAL,
            message=one_line(message),
            timing=self._watch.stop(),
            usage=self.usage,
            sent=sent,
        )
