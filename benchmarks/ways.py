"""The ways to have an answer judged, each with the part of the work that is to be timed."""

from __future__ import annotations

import contextlib
import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import jsonschema
import jsonschema_rs
from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

from benchmarks.answers import Answer
from pytest_jsbench.verdicts import Judge, JudgePolicy
from pytest_jsbench.verdicts.in_process import InProcessJudge

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], object]


class Way(Protocol):
    """Gets answers judged."""

    def first(self, answer: Answer) -> Work:
        """The work when the schema was never seen."""

    def again(self, answer: Answer) -> Work:
        """The work when everything was seen before."""

    def close(self) -> None:
        """Let go of what it holds."""


class _Judging:
    """What both judges have in common."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def work(self, answer: Answer) -> Work:
        raise NotImplementedError

    def first(self, answer: Answer) -> Work:
        # a comment makes it another schema, which no cache holds
        schema = {**answer.schema, "$comment": f"never seen before: {next(self._numbers)}"}
        return self.work(replace(answer, schema=schema, schema_text=json.dumps(schema)))

    def again(self, answer: Answer) -> Work:
        work = self.work(answer)
        work()
        return work


class InChild(_Judging):
    """As a run does it: through the child process."""

    def __init__(self, policy: JudgePolicy) -> None:
        super().__init__()
        self._judge = Judge(policy)
        self._judge.inspect(True)

    def work(self, answer: Answer) -> Work:
        return lambda: self._judge.judge(answer.schema, answer.text)

    def close(self) -> None:
        self._judge.close()


class InProcess(_Judging):
    """What the child process itself does."""

    def __init__(self, policy: JudgePolicy) -> None:
        super().__init__()
        self._judge = InProcessJudge(policy)

    def work(self, answer: Answer) -> Work:
        return lambda: list(self._judge.judge(answer.schema_text, answer.text, truncated=False))

    def close(self) -> None:
        """Nothing is held."""


class Bare:
    """A library by itself: valid or not, and a schema or answer that it cannot do is left to be."""

    def first(self, answer: Answer) -> Work:
        def work() -> None:
            with contextlib.suppress(Exception):
                self.build(answer.schema).is_valid(json.loads(answer.text))

        return work

    def again(self, answer: Answer) -> Work:
        try:
            validator = self.build(answer.schema)
        except (ValueError, jsonschema_rs.ReferencingError):
            return self.first(answer)

        def work() -> None:
            with contextlib.suppress(Exception):
                validator.is_valid(json.loads(answer.text))

        work()
        return work

    def build(self, schema: dict[str, Any]) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is held."""


class BareJsonschema(Bare):
    def build(self, schema: dict[str, Any]) -> Any:
        cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        # the registry keeps it from fetching references over the network
        return cls(schema, registry=REGISTRY, format_checker=jsonschema.FormatChecker())


class BareJsonschemaRs(Bare):
    def build(self, schema: dict[str, Any]) -> Any:
        return jsonschema_rs.validator_for(schema, validate_formats=True, offline=True)


RS_ONLY = JudgePolicy(validator="jsonschema-rs")
BOTH = JudgePolicy(validator="both")

WAYS: dict[str, Callable[[], Way]] = {
    "child, jsonschema-rs": lambda: InChild(RS_ONLY),
    "child, both": lambda: InChild(BOTH),
    "in process, jsonschema-rs": lambda: InProcess(RS_ONLY),
    "in process, both": lambda: InProcess(BOTH),
    "bare jsonschema-rs": BareJsonschemaRs,
    "bare jsonschema": BareJsonschema,
}
