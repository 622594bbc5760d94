"""Verdicts of the judge, and of the JavaScript validators through a Node process."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from benchmarks.differential.questions import PatternQuestion, Question, SchemaQuestion
from pytest_jsbench.schemas.dialects import DRAFT_2020_12
from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, Verdict

HERE = Path(__file__).parent
_LETTERS = {
    FailureType.SYNTAX_ERROR: "x",
    FailureType.INVALID_SCHEMA: "r",
}
#:  Reasons for which the judge leaves an answer undecided; any other reason is an error of the judge.
_BOUNDS = frozenset({"timeout", "memory", "backtracking"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """
    Verdicts of one validator for each text: valid, invalid, not JSON (x), schema rejected (r), undecided (u), error
    (e).
    """

    verdicts: str
    #:  Reason for each text that is neither valid nor invalid, by its number.
    whys: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A question with the verdicts of all validators."""

    question: Question
    ours: Opinion
    #:  Verdicts by validator: `ajv`, `hyperjump`, `v8`, and `label` for those of the publisher.
    others: Mapping[str, Opinion]
    #:  Flags with which V8 accepts the pattern, or all patterns of the schema.
    flags: str


class Panel:
    """
    Runs the judge and the JavaScript validators on the same questions.

    The command creates one panel for a run and closes it at the end. The judges live as long as the panel; each call
    starts its own Node process, which a thread feeds while the judge works.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self._judges: dict[tuple[str, bool], Judge] = {}

    def evaluate(self, questions: Iterable[Question]) -> Generator[Answered, None, None]:
        """Yield the verdicts of all validators for each question, in order."""
        waiting: queue.SimpleQueue[Question | None] = queue.SimpleQueue()
        command = [self._node, "--stack-size=4000", str(HERE / "validators.mjs")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            feeder = threading.Thread(target=_feed, args=(questions, process.stdin, waiting))
            feeder.start()
            try:
                while (question := waiting.get()) is not None:
                    ours = self.judge(question)
                    line = process.stdout.readline()
                    if not line:
                        raise RuntimeError(f"Node ended at {question.name}; is `npm ci` done in {HERE}?")
                    yield _collect_verdicts(question, ours, json.loads(line))
            finally:
                #  The remaining output is not needed.
                process.kill()
                feeder.join()

    def judge(self, question: Question) -> Opinion:
        """Return the judge's verdicts."""
        if isinstance(question, PatternQuestion):
            texts = tuple(map(json.dumps, question.texts))
            schema, uri, formats = {"pattern": question.pattern}, DRAFT_2020_12.uri, False
        else:
            schema, uri, formats, texts = question.schema, question.dialect.uri, question.formats, question.texts
        judge = self._judges.get((uri, formats)) or self._judges.setdefault((uri, formats), _judge(uri, formats))
        found = [judge.judge(schema, text) for text in texts]
        whys = {number: one.message for number, one in enumerate(found) if one.valid is None}
        return Opinion(verdicts="".join(map(_letter, found)), whys=whys)

    def close(self) -> None:
        """Close the judges."""
        for judge in self._judges.values():
            judge.close()


def _judge(uri: str, formats: bool) -> Judge:
    policy = JudgePolicy(
        default_dialect=uri,
        formats="assert" if formats else "ignore",
        validator="jsonschema-rs",
        extra_fields="allow",
        fences="forbid",
    )
    return Judge(policy)


def _letter(verdict: Verdict) -> str:
    if verdict.valid is not None:
        return "v" if verdict.valid else "i"
    if verdict.reason in _BOUNDS:
        return "u"
    return "e" if verdict.failure_type is None else _LETTERS.get(verdict.failure_type, "e")


def _feed(questions: Iterable[Question], stdin: IO[str], waiting: queue.SimpleQueue[Question | None]) -> None:
    with contextlib.suppress(BrokenPipeError):
        for question in questions:
            stdin.write(question.line + "\n")
            stdin.flush()
            waiting.put(question)
    waiting.put(None)
    with contextlib.suppress(BrokenPipeError):
        stdin.close()


def _collect_verdicts(question: Question, ours: Opinion, response: Mapping[str, Any]) -> Answered:
    names = ("v8",) if isinstance(question, PatternQuestion) else ("ajv", "hyperjump")
    others = {name: _opinion(**response[name]) for name in names}
    if isinstance(question, SchemaQuestion) and question.labels is not None:
        others["label"] = Opinion(verdicts="".join("v" if valid else "i" for valid in question.labels))
    return Answered(question=question, ours=ours, others=others, flags=response["flags"])


def _opinion(verdicts: str, whys: Mapping[str, str] | list[str]) -> Opinion:
    numbered = enumerate(whys) if isinstance(whys, list) else ((int(number), why) for number, why in whys.items())
    return Opinion(verdicts=verdicts, whys=dict(numbered))
