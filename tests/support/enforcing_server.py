"""A fake HTTP server that enforces schemas, except for the configured faults."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from pytest_jsbench.lab.probe.demo_chat import ChatRequest, answer_of_text, completion, stream_events
from tests.support.openai_wire import error_body
from tests.support.provider import Asked, Reply, json_reply, stream_reply


@dataclass(slots=True)
class Enforcing:
    """Function for `Provider.choose`; answers conform unless a fault applies."""

    #: Returns whether the schema is dropped for a question.
    drops: Callable[[ChatRequest], bool] = lambda _: False
    #: Returns a reply to send instead of an answer.
    instead: Callable[[ChatRequest], Reply | None] = lambda _: None
    #: Number of requests before the concurrent ones, and number of concurrent ones.
    alone: int = 0
    together: int = 0
    #: Number of concurrent requests whose schema is still enforced.
    capacity: int = 1_000
    mixes_up: bool = False
    _asked: int = 0
    _waiting: list[ChatRequest] = field(default_factory=list)
    _all_there: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, asked: Asked) -> Reply:
        question = ChatRequest.from_body(asked.body)
        with self._all_there:
            self._asked += 1
            loaded = self.together > 0 and self.alone < self._asked <= self.alone + self.together
            place = self._asked - self.alone - 1
            if loaded:
                self._waiting.append(question)
                self._all_there.notify_all()
                assert self._all_there.wait_for(lambda: len(self._waiting) == self.together, timeout=60)
        if (reply := self.instead(question)) is not None:
            return reply
        if loaded and self.mixes_up:
            return said(self._waiting[place - 1].conforming_text, question)
        dropped = self.drops(question) or (loaded and place >= self.capacity)
        return said(question.wanted if dropped else question.conforming_text, question)


def said(text: str, question: ChatRequest) -> Reply:
    """Return the text as a Chat Completions response."""
    if question.streaming:
        return stream_reply(*stream_events(answer_of_text(text, question)))
    return json_reply(completion(answer_of_text(text, question)))


def refusal(message: str) -> Reply:
    return json_reply(error_body(message), status=400)
