"""A fake server of Chat Completions that enforces schemas and honours parameters, except for one planted fault."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from pytest_jsbench.lab.probe.demo_chat import (
    ChatAnswer,
    ChatRequest,
    DemoCall,
    answer_of_calls,
    answer_of_text,
    completion,
    make_answer,
    make_calls,
    make_conforming_value,
    stream_events,
)
from tests.support.openai_wire import error_body
from tests.support.provider import Asked, Reply, json_reply, stream_reply

#: Seconds that a request waits for another one although the probe should send none.
_OVERLAP = 0.02
#: Maximum number of seconds that it waits for those that the probe should send; a sound probe needs a few milliseconds.
_LONG_OVERLAP = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A fault: what it changes in a request before it is answered, in the answer, and in what the model sees."""

    #: Names of the check and of the fault that the probe should report.
    check: str
    fault: str
    request: Callable[[ChatRequest], ChatRequest] = lambda request: request
    answer: Callable[[ChatAnswer, ChatRequest], ChatAnswer] = lambda answer, _: answer
    #: Returns the events of a streamed answer as they are sent.
    events: Callable[[Iterator[str]], Iterator[str]] = lambda events: events
    #: Returns the part of a request's body that the model sees.
    seen: Callable[[Mapping[str, Any]], Any] = lambda body: [body["messages"], body.get("tools")]
    #: Status of the response to a malformed request.
    malformed: int = 400
    #: Returns the answer to a request that overlapped with others; None without a fault.
    overlapped: Callable[[ChatRequest, list[ChatRequest]], ChatAnswer | None] | None = None
    #: Returns the answer to a request without a schema after requests overlapped; the second argument is the last
    #: request with a schema.
    afterwards: Callable[[ChatRequest, ChatRequest], ChatAnswer] | None = None


@dataclass(slots=True)
class FaultyChat:
    """
    Function for `Provider.choose`.

    With a random generator, the model is weak: without temperature 0, it sometimes makes no call, or only one.
    """

    planted: Planted | None = None
    random: Random | None = None
    #: Returns whether a request is rejected as unsupported.
    refuses: Callable[[Mapping[str, Any]], bool] = lambda _: False
    _inside: list[ChatRequest] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _last_constrained: ChatRequest | None = None
    _has_overlapped: bool = False
    #: For each request in flight, by its identity, the requests that were in flight at any time since it came.
    _met: dict[int, list[ChatRequest]] = field(default_factory=dict)
    #: Number of requests that are still to come, and maximum number at once.
    _coming: int = 0
    _at_once: int = 1
    #: Identities of the requests in flight that wait for no others.
    _released: set[int] = field(default_factory=set)

    def expect(self, requests: int, *, at_once: int) -> None:
        """Expect these requests, so that it is the probe and not the time that decides which of them overlap."""
        with self._changed:
            self._coming, self._at_once = requests, at_once

    def __call__(self, asked: Asked) -> Reply:
        planted = self.planted or Planted(check="", fault="")
        if self.refuses(asked.body):
            return json_reply(error_body("tools are not supported"), status=400)
        try:
            request = ChatRequest.from_body(asked.body)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            if planted.malformed != 200:
                return json_reply(error_body("the request is malformed"), status=planted.malformed)
            return json_reply(completion(ChatAnswer(text="yes")))
        words = len(json.dumps(planted.seen(asked.body)).split())
        request = planted.request(replace(request, size=words))
        with self._entered(request) as others:
            answer = self._special(request, others) or planted.answer(self._answer(request), request)
        if request.streaming:
            return stream_reply(*planted.events(stream_events(answer)))
        return json_reply(completion(answer))

    def _answer(self, request: ChatRequest) -> ChatAnswer:
        answer = make_answer(request, self.random)
        if self.random is None or request.tool is not None or request.temperature == 0:
            return answer
        if request.choice == "auto" and answer.calls and self.random.random() < 0.15:
            return answer_of_text("I would rather not call a tool.", request)
        if len(answer.calls) > 1 and self.random.random() < 0.3:
            return replace(answer, calls=answer.calls[:1])
        return answer

    @contextmanager
    def _entered(self, request: ChatRequest) -> Iterator[list[ChatRequest]]:
        """Yield the requests that are in flight at the same time, if a fault depends on them."""
        planted = self.planted
        if planted is None or (planted.overlapped is None and planted.afterwards is None):
            yield []
            return
        with self._changed:
            met = list(self._inside)
            for each in self._inside:
                self._met[id(each)].append(request)
            self._met[id(request)] = met
            self._inside.append(request)
            self._coming -= 1
            if not self._coming or len(self._inside) >= self._at_once > 1:
                self._released.update(map(id, self._inside))
            self._changed.notify_all()
            if self._at_once > 1:
                self._changed.wait_for(lambda: id(request) in self._released, timeout=_LONG_OVERLAP)
            else:
                self._changed.wait_for(lambda: bool(met), timeout=_OVERLAP)
            others = list(met)
            if request.schema is not None:
                self._last_constrained = request
        try:
            yield others
        finally:
            with self._changed:
                self._inside.remove(request)
                self._released.discard(id(request))
                del self._met[id(request)]
                self._has_overlapped |= bool(others)

    def _special(self, request: ChatRequest, others: list[ChatRequest]) -> ChatAnswer | None:
        planted = self.planted
        if planted is None:
            return None
        if planted.overlapped is not None and others:
            return planted.overlapped(request, others)
        last = self._last_constrained
        if planted.afterwards is not None and self._has_overlapped and not others and last and request.schema is None:
            return planted.afterwards(request, last)
        return None


def _unenforced(request: ChatRequest, *, of: str, first: bool = True) -> Callable[[ChatAnswer], ChatAnswer]:
    def change(answer: ChatAnswer) -> ChatAnswer:
        if request.choice != of:
            return answer
        wanted = dict(request.lines)
        calls = tuple(
            replace(call, arguments=wanted.get(call.name, call.arguments)) if first or number else call
            for number, call in enumerate(answer.calls)
        )
        return replace(answer, calls=calls)

    return change


def _swap(answer: ChatAnswer, request: ChatRequest) -> ChatAnswer:
    """Return the calls with arguments that conform to the schema of a strict tool that another call names."""
    strict = [tool for tool in request.tools if tool.strict]
    return replace(
        answer,
        calls=tuple(
            replace(call, arguments=json.dumps(make_conforming_value(other.parameters)))
            if (other := next((tool for tool in strict if tool.name != call.name), None)) is not None
            else call
            for call in answer.calls
        ),
    )


def _join(answer: ChatAnswer, _: ChatRequest) -> ChatAnswer:
    """Return the first call with the arguments of all."""
    if len(answer.calls) < 2:
        return answer
    arguments = "".join(call.arguments for call in answer.calls)
    return replace(answer, calls=(replace(answer.calls[0], arguments=arguments),))


def _rename(answer: ChatAnswer, _: ChatRequest) -> ChatAnswer:
    return replace(answer, calls=tuple(replace(call, name=f"{call.name}_2") for call in answer.calls))


def _call_anyway(answer: ChatAnswer, request: ChatRequest) -> ChatAnswer:
    if not request.tools or request.choice != "none":
        return answer
    return answer_of_calls(make_calls(replace(request, choice="required")), request)


def _when_streamed(change: Callable[[ChatAnswer], ChatAnswer]) -> Callable[[ChatAnswer, ChatRequest], ChatAnswer]:
    return lambda answer, request: change(answer) if request.streaming else answer


def _each_call(change: Callable[[DemoCall], DemoCall]) -> Callable[[ChatAnswer], ChatAnswer]:
    return lambda answer: replace(answer, calls=tuple(map(change, answer.calls)))


def _without_descriptions(body: Mapping[str, Any], *, of_tools: bool) -> Any:
    def remove(value: Any, depth: int) -> Any:
        if isinstance(value, dict):
            left_out = "description" if (depth <= 2) is of_tools else None
            return {name: remove(inner, depth + 1) for name, inner in value.items() if name != left_out}
        return [remove(inner, depth) for inner in value] if isinstance(value, list) else value

    return [body["messages"], remove(body.get("tools"), 1)]


def _conform_to_shown(request: ChatRequest, _: ChatRequest) -> ChatAnswer:
    """Return an answer that conforms to the schema in the system message."""
    schema = request.shown.partition("JSON schema:\n\n")[2]
    return answer_of_text(json.dumps(make_conforming_value(json.loads(schema))) if schema else request.wanted, request)


def _constrained(requests: list[ChatRequest]) -> ChatRequest | None:
    return next((each for each in requests if each.schema is not None), None)


def _corrupt_plain(request: ChatRequest, others: list[ChatRequest]) -> ChatAnswer | None:
    if request.schema is not None or _constrained(others) is None:
        return None
    return answer_of_text("the sea was calm", request)


def _constrain_plain(request: ChatRequest, others: list[ChatRequest]) -> ChatAnswer | None:
    other = _constrained(others)
    return None if request.schema is not None or other is None else answer_of_text(other.conforming_text, request)


def _mix_up_constrained(request: ChatRequest, others: list[ChatRequest]) -> ChatAnswer | None:
    other = _constrained(others)
    return None if request.schema is None or other is None else answer_of_text(other.conforming_text, request)


def _drop_next_to_plain(request: ChatRequest, others: list[ChatRequest]) -> ChatAnswer | None:
    has_plain = any(each.schema is None for each in others)
    return answer_of_text(request.wanted, request) if request.schema is not None and has_plain else None


#: Planted faults by a name for the test.
PLANTED: Mapping[str, Planted] = {
    "strict ignored with auto": Planted(
        check="auto_tools",
        fault="strict_ignored",
        answer=lambda answer, request: _unenforced(request, of="auto")(answer),
    ),
    "strict schema for a loose tool": Planted(check="auto_tools", fault="tools_mixed_up", answer=_swap),
    "second call not constrained": Planted(
        check="several_calls",
        fault="strict_ignored",
        answer=lambda answer, request: _unenforced(request, of="required", first=False)(answer),
    ),
    "schemas of calls exchanged": Planted(check="several_calls", fault="tools_mixed_up", answer=_swap),
    "arguments joined": Planted(check="several_calls", fault="arguments_joined", answer=_join),
    "required ignored": Planted(
        check="several_calls",
        fault="required_ignored",
        request=lambda request: replace(request, choice="none") if request.choice == "required" else request,
    ),
    "name changed": Planted(check="several_calls", fault="unknown_tool", answer=_rename),
    "format dropped next to tools": Planted(
        check="format_with_tools",
        fault="format_dropped",
        request=lambda request: replace(request, schema=None) if request.tools and not request.tool else request,
    ),
    "tools dropped next to a format": Planted(
        check="format_with_tools",
        fault="tools_dropped",
        request=lambda request: replace(request, tools=(), choice="none") if request.schema is not None else request,
    ),
    "called despite none": Planted(check="format_with_tools", fault="called_despite_none", answer=_call_anyway),
    "tools unseen": Planted(check="tool_description", fault="tools_unseen", seen=lambda body: [body["messages"]]),
    "description unseen": Planted(
        check="tool_description",
        fault="description_unseen",
        seen=lambda body: _without_descriptions(body, of_tools=True),
    ),
    "parameter's description unseen": Planted(
        check="tool_description",
        fault="parameter_unseen",
        seen=lambda body: _without_descriptions(body, of_tools=False),
    ),
    "streamed text differs": Planted(
        check="streaming",
        fault="text_differs",
        answer=_when_streamed(lambda answer: replace(answer, text=answer.text and f" {answer.text}")),
    ),
    "streamed arguments differ": Planted(
        check="streaming",
        fault="calls_differ",
        answer=_when_streamed(_each_call(lambda call: replace(call, arguments=call.arguments[:-1]))),
    ),
    "streamed calls leak": Planted(
        check="streaming",
        fault="content_leaked",
        answer=_when_streamed(lambda answer: replace(answer, text="<tool_call>") if answer.calls else answer),
    ),
    "streamed finish reason differs": Planted(
        check="streaming",
        fault="finish_differs",
        answer=_when_streamed(lambda answer: replace(answer, finish="stop")),
    ),
    "streamed finish reason of calls differs": Planted(
        check="streaming",
        fault="finish_differs",
        answer=_when_streamed(lambda answer: replace(answer, finish="stop") if answer.calls else answer),
    ),
    "streamed usage differs": Planted(
        check="streaming",
        fault="usage_differs",
        answer=_when_streamed(lambda answer: replace(answer, input_tokens=answer.input_tokens + 1)),
    ),
    "streamed usage missing": Planted(
        check="streaming",
        fault="usage_differs",
        answer=_when_streamed(lambda answer: replace(answer, has_usage=False)),
    ),
    "same ids": Planted(
        check="streaming",
        fault="ids_wrong",
        answer=_when_streamed(_each_call(lambda call: replace(call, id="1"))),
    ),
    "same indices": Planted(
        check="streaming",
        fault="indices_wrong",
        answer=_when_streamed(lambda answer: replace(answer, indices=(0,) * len(answer.calls))),
    ),
    "temperature ignored": Planted(
        check="temperature",
        fault="temperature_ignored",
        request=lambda request: replace(request, temperature=0.0),
    ),
    "sampled at temperature 0": Planted(
        check="temperature",
        fault="temperature_ignored",
        request=lambda request: replace(request, temperature=1.0),
    ),
    "seed ignored": Planted(check="seed", fault="seed_ignored", request=lambda request: replace(request, seed=None)),
    "limit ignored": Planted(
        check="max_tokens", fault="limit_ignored", request=lambda request: replace(request, limit=None)
    ),
    "limit not reported": Planted(
        check="max_tokens",
        fault="limit_unreported",
        answer=lambda answer, _: replace(answer, finish="stop") if answer.finish == "length" else answer,
    ),
    "stop ignored": Planted(check="stop", fault="stop_ignored", request=lambda request: replace(request, stop="")),
    "malformed accepted": Planted(check="malformed", fault="malformed_accepted", malformed=200),
    "malformed fails": Planted(check="malformed", fault="malformed_fails", malformed=500),
    "plain constrained": Planted(check="mixed_load", fault="plain_mixed_up", overlapped=_constrain_plain),
    "plain corrupted": Planted(check="mixed_load", fault="plain_corrupted", overlapped=_corrupt_plain),
    "constrained mixed up": Planted(check="mixed_load", fault="constrained_mixed_up", overlapped=_mix_up_constrained),
    "schema dropped next to plain": Planted(check="mixed_load", fault="schema_dropped", overlapped=_drop_next_to_plain),
    "schema stays": Planted(
        check="after_load",
        fault="control_mixed_up",
        afterwards=lambda request, last: answer_of_text(last.conforming_text, request),
    ),
    "shown schema enforced after the load": Planted(
        check="after_load", fault="control_changed", afterwards=_conform_to_shown
    ),
}
