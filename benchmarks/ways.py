"""Ways to judge an answer, each with the work to be timed."""

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
    """A way to judge answers."""

    def first(self, answer: Answer) -> Work:
        """Return the work for a schema that is new to the judge."""

    def again(self, answer: Answer) -> Work:
        """Return the work for a schema and an answer that the judge has seen before."""

    def close(self) -> None:
        """Release resources."""


class _Judging:
    """Common part of both ways to use the judge."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def work(self, answer: Answer) -> Work:
        raise NotImplementedError

    def first(self, answer: Answer) -> Work:
        # a unique comment makes it a new schema, which no cache contains
        schema = {**answer.schema, "$comment": f"unique: {next(self._numbers)}"}
        return self.work(replace(answer, schema=schema, schema_text=json.dumps(schema)))

    def again(self, answer: Answer) -> Work:
        work = self.work(answer)
        work()
        return work


class InChild(_Judging):
    """Judge in the child process, as in a run."""

    def __init__(self, policy: JudgePolicy) -> None:
        super().__init__()
        self._judge = Judge(policy)
        self._judge.inspect(True)

    def work(self, answer: Answer) -> Work:
        return lambda: self._judge.judge(answer.schema, answer.text)

    def close(self) -> None:
        self._judge.close()


class InProcess(_Judging):
    """Judge in this process, as the child process does."""

    def __init__(self, policy: JudgePolicy) -> None:
        super().__init__()
        self._judge = InProcessJudge(policy)

    def work(self, answer: Answer) -> Work:
        return lambda: list(self._judge.judge(answer.schema_text, answer.text, truncated=False))

    def close(self) -> None:
        """Do nothing; there are no resources to release."""


class Bare:
    """A bare library: valid or not; schemas and answers that it does not support are ignored."""

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
        """Do nothing; there are no resources to release."""


class BareJsonschema(Bare):
    def build(self, schema: dict[str, Any]) -> Any:
        cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        # the registry prevents fetching references over the network
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
