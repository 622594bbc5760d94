"""
Functions and engines that answer in the sessions that tests start, and log their calls.

Each bench has a copy of this module next to its tests; it imports no other test module. A function is selected by
`--jsbench-engine-option=answers=answering:NAME`, an engine by `--jsbench-engine=answering:NAME`.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from msgspec import structs

from pytest_jsbench import CallError, Completion, EngineConfig, EngineInfo, Request, Usage
from pytest_jsbench.core.generations import Declined, DeclineReason, FaultKind, FinishReason, ResponseFormat, Sent
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.engines.base import Acceptance, EngineFactory

RIGHT, WRONG = '{"n": 1}', '{"n": -1}'


def note(*words: object) -> None:
    with Path("calls.txt").open("a") as calls:
        calls.write(" ".join(map(str, words)) + "\n")


def last(request: Request) -> str:
    return request.prompt.messages[-1].content


def counted(request: Request) -> str:
    """Answer with the text in the bench's answers file."""
    note(request.key)
    answers = json.loads(Path(__file__).with_name("answers.json").read_text())
    return str(answers.get(request.key.id, RIGHT))


def echo(request: Request) -> str:
    """Answer with the text after `echo ` in the last message; anything else gets the number of the repeat."""
    note(json.dumps([str(request.key), request.repeat, last(request), request.params.temperature]))
    if last(request).startswith("echo "):
        return last(request).removeprefix("echo ")
    return f'{{"n": {request.repeat}}}' if request.repeat % 2 else WRONG


def heard(request: Request) -> str:
    return json.dumps(" | ".join(f"{message.role}: {message.content}" for message in request.prompt.messages))


def numbered(request: Request) -> str:
    """Answer with the digit at the end of the prompt."""
    note(request.key.id)
    return f'{{"n": {last(request)[-1]}}}'


def seeded(request: Request) -> str:
    return f'{{"n": {request.params.seed}}}'


def invoiced(_: Request) -> str:
    return json.dumps({"total": int(os.environ["TOTAL"]), "vendor": "ACME"})


_asked = itertools.count()


def changing(request: Request) -> str:
    """Answer with prose at first, and correctly from then on."""
    note(request.key)
    return "prose" if next(_asked) == 0 else RIGHT


def good(request: Request) -> str:
    note("good", request.key.id)
    return RIGHT


def bad(request: Request) -> str:
    note("bad", request.key.id)
    return WRONG if request.key.id in "ac" else '{"n": 2}'


def chatty(request: Request) -> str:
    note("chatty", request.key.id)
    return "Sure!" if len(request.prompt.messages) > 1 and request.key.id == "a" else "3"


def clocked(_: Request) -> str:
    note(time.monotonic())
    return RIGHT


def timed(request: Request) -> str:
    clocked(request)
    time.sleep(0.4)
    return RIGHT


def _listed(name: str) -> Sequence[str]:
    path = Path(name)
    return path.read_text().split() if path.exists() else ()


def faltering(request: Request) -> str:
    """Raise, or end the process, at the cases that two files list; be slow if a third file exists."""
    name = request.key.id
    note(name)
    if name in _listed("broken.txt"):
        raise CallError(FaultKind.SERVER, "down")
    if name in _listed("deadly.txt"):
        os.kill(os.getpid(), signal.SIGKILL)
    if Path("slow").exists():
        time.sleep(0.2 if name < "c04" else 60)
    return WRONG if name in {"c02", "violated"} else RIGHT


begun, ended = threading.Event(), threading.Event()


def late(request: Request) -> str:
    """Answer one case after the session's end."""
    if request.key.id == "late":
        begun.set()
        ended.wait(30)
    return RIGHT


def alarmed(request: Request) -> str:
    """Trigger the alarm that pytest-timeout sets."""
    if "late" in last(request):
        signal.raise_signal(signal.SIGALRM)
    return RIGHT


def wrong_key(_: Request) -> str:
    raise CallError(FaultKind.AUTH, "no such key")


def completion(usage: Usage | None = None) -> Completion:
    return Completion(
        text=RIGHT, finish_reason=FinishReason.STOP, timing=Timing(tgt=0.1), usage=Usage() if usage is None else usage
    )


def hungry(request: Request) -> Completion:
    """Answer until memory runs out."""
    if request.key.id > "c05" and Path("exhausted").exists():
        raise MemoryError
    note(request.key.id)
    return completion()


def timed_alike(text: str, finish_reason: FinishReason = FinishReason.STOP) -> Completion:
    """Return a completion whose times and tokens do not depend on the machine."""
    return Completion(
        text=text,
        finish_reason=finish_reason,
        timing=Timing(tgt=1.5, ttft=0.25, gct=1.25),
        usage=Usage(input_tokens=100, output_tokens=len(text)),
        sent=Sent(response_format=ResponseFormat.JSON_SCHEMA),
    )


def fixed(request: Request) -> Completion | Declined | dict[str, Any]:
    """Answer as the bench's answers file has it, in a fixed time."""
    answers = json.loads(Path(__file__).with_name("answers.json").read_text())
    answer = answers.get(request.key.id, RIGHT)
    if isinstance(answer, list):
        answer = answer[request.repeat]
    if isinstance(answer, str):
        return timed_alike(answer)
    if "decline" in answer:
        return Declined(reason=DeclineReason(answer["decline"]), message=answer["message"])
    if "text" in answer:
        return timed_alike(answer["text"], FinishReason(answer["finish_reason"]))
    return dict(answer)


def fixed_good(request: Request) -> Completion:
    return timed_alike(RIGHT)


def fixed_bad(request: Request) -> Completion:
    return timed_alike(WRONG if request.key.id in "ac" else RIGHT)


class StandIn:
    """An engine with the same answer to each case."""

    model, provider = "m", ""
    usage = Usage()

    def __init__(self, _config: EngineConfig) -> None:
        self.info = EngineInfo(
            engine=type(self).__name__.lower(),
            model=self.model,
            provider=self.provider or None,
            response_format=ResponseFormat.TEXT,
            streaming=False,
        )

    def generate(self, request: Request) -> Completion:
        return completion(self.usage)

    def close(self) -> None: ...


class Priced(StandIn):
    """An engine whose calls cost $0.000327, at $0.15 and $0.60 per million tokens in and out, as reserved."""

    model, provider = "gpt-4o-mini", "openai"
    usage = Usage(input_tokens=180, output_tokens=500)


class WrongAtAPrice(Priced):
    """An engine whose answers cost money, and are all wrong."""

    def generate(self, request: Request) -> Completion:
        note(len(request.prompt.messages))
        return structs.replace(super().generate(request), text=WRONG)


class Hungry(StandIn):
    def generate(self, request: Request) -> Completion:
        return hungry(request)


held: list[IO[str]] = []


class Greedy(StandIn):
    """An engine that keeps all file descriptors open while it answers."""

    def __init__(self, config: EngineConfig) -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (150, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        super().__init__(config)

    def generate(self, request: Request) -> Completion:
        with suppress(OSError):
            while True:
                held.append(Path(os.devnull).open())  # noqa: SIM115
        return completion()


class Away(StandIn):
    def __init__(self, config: EngineConfig) -> None:
        if "PYTEST_XDIST_WORKER" in os.environ:
            raise RuntimeError("the licence server is away")
        super().__init__(config)


class Digits:
    """A grammar that accepts what begins with a digit, unless the schema lists what it accepts."""

    def accepts(self, schema: Any, texts: Sequence[str]) -> Acceptance | Declined:
        match schema.get("title"):
            case "declines":
                return Declined(reason=DeclineReason.UNSUPPORTED_SCHEMA, message="no titles")
            case "hangs":
                raise CallError(FaultKind.HANG, "no grammar within 20 s")
        return Acceptance(accepted=tuple(text[0].isdigit() for text in texts), grammar_compilation=0.002)

    def close(self) -> None:
        with Path("closed").open("a") as file:
            file.write("x")


class Grammars(EngineFactory):
    """The factory of an engine that calls no model."""

    def check(self, _config: EngineConfig) -> None: ...

    def describe(self, _config: EngineConfig) -> EngineInfo:
        return EngineInfo(engine="digits", model="m", response_format=ResponseFormat.JSON_SCHEMA, streaming=False)

    def build(self, _config: EngineConfig) -> StandIn:
        raise AssertionError("an engine for no model")

    def build_matcher(self, _config: EngineConfig) -> Digits:
        return Digits()


def repairable(request: Request) -> Completion:
    """
    Answer wrongly at first: `quick` is right after the judge's message, `slow` in the third answer, and `never` not.

    `cut` is not JSON, and its second try fails while there is a file `down`.
    """
    conversation = request.prompt.messages
    answers = len(conversation) // 2
    name = request.key.id.partition("+")[0]
    note(name, answers)
    right = {
        "right": True,
        "quick": "less than" in last(request),
        "slow": answers >= 2,
        "never": False,
        "cut": answers > 0,
    }
    if name == "cut" and answers and Path("down").exists():
        raise CallError(FaultKind.BAD_REQUEST, "down")
    text = RIGHT if right[name] else WRONG
    if name == "cut" and not answers:
        text = '{"n": 1'
    usage = Usage(input_tokens=10 * len(conversation), output_tokens=5)
    return Completion(text=text, finish_reason=FinishReason.STOP, timing=Timing(tgt=0.5), usage=usage)


def repaired_once(request: Request) -> str:
    """Answer rightly only after the judge's message."""
    return RIGHT if "less than" in last(request) else WRONG
