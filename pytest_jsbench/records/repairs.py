"""Define the second tries of a wrong answer: the calls that continue its conversation, each with its own verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct, structs

from pytest_jsbench.core.generations import Completion, Declined, Failed, Generation, GenerationType, Usage, type_of
from pytest_jsbench.core.json_values import Digest, Times, write_always
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.verdicts import NOT_THE_MODELS, FailureType, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Failure types of answers that are asked for again: the model wrote an answer, and the judge found it wrong.
REPAIRABLE = frozenset(
    {
        FailureType.NO_CALL,
        FailureType.UNKNOWN_TOOL,
        FailureType.WRONG_TOOL,
        FailureType.TRUNCATED,
        FailureType.SYNTAX_ERROR,
        FailureType.HALLUCINATION,
        FailureType.SCHEMA_VIOLATION,
    }
)
#: Failure types of answers that are not JSON, which a local repair could make JSON.
NOT_JSON = frozenset({FailureType.SYNTAX_ERROR, FailureType.TRUNCATED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPlan:
    """How often a wrong answer is asked for again, and with which follow-up messages."""

    #: Maximum number of tries.
    most: int
    #: Whether the follow-up messages contain what the judge found.
    shows_errors: bool = True

    @classmethod
    def of(cls, option: tuple[int, str] | None) -> RepairPlan | None:
        """Return the plan for a value of --jsbench-repairs; None if there are no second tries."""
        if option is None or option[0] == 0:
            return None
        most, follow_up = option
        return cls(most=most, shows_errors=follow_up == "errors")

    def __str__(self) -> str:
        """Return the plan as a value of --jsbench-repairs."""
        return f"{self.most}:{'errors' if self.shows_errors else 'blind'}"


#: A result of an engine.
G = TypeVar("G", bound=Generation)


def written_generation(generation: G) -> G:
    """Return a result as it is written to disk, without the parts that only the process that got it needs."""
    if not isinstance(generation, Completion | Declined):
        return generation
    sent = generation.sent and structs.replace(generation.sent, params=None)
    return structs.replace(generation, server=None, sent=sent)


class RepairTry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that continues the conversation of a wrong answer, and its result."""

    #: SHA-256 digest of the messages that were sent: the prompt, and each earlier answer with its follow-up.
    prompt_digest: Digest
    #: Follow-up message to the answer before.
    message: str
    #: Result of the engine.
    generation: Completion | Declined | Failed
    #: Verdict of the judge.
    verdict: Verdict
    #: Time of the call in ISO 8601 and UTC.
    started_at: str | None = write_always(None)
    #: Number of failed calls that were retried before this result.
    retries: Times = write_always(0)
    #: Whether the answer was taken from recordings, without a call.
    remembered: bool = False

    @property
    def failed(self) -> bool:
        """Whether the call failed, so that the model had no second try."""
        return isinstance(self.generation, Failed)

    @property
    def failure_type(self) -> FailureType | None:
        """Failure type of the verdict."""
        return self.verdict.failure_type


class TryFacts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of a second try, without texts."""

    prompt_digest: str
    generation_type: GenerationType
    failure_type: FailureType | None
    timing: Timing | None
    usage: Usage | None
    #: Whether the answer was taken from recordings, without a call.
    remembered: bool = False

    @property
    def failed(self) -> bool:
        """Whether the call failed, so that the model had no second try."""
        return self.generation_type == "failed"

    @classmethod
    def of(cls, made: RepairTry) -> TryFacts:
        """Return the facts about a try."""
        return cls(
            prompt_digest=made.prompt_digest,
            generation_type=type_of(made.generation),
            failure_type=made.failure_type,
            timing=made.generation.timing,
            usage=made.generation.usage,
            remembered=made.remembered,
        )


class _Try(Protocol):
    @property
    def failed(self) -> bool: ...

    @property
    def failure_type(self) -> FailureType | None: ...


def count_until_passed(tries: Sequence[_Try], most: int) -> int | None:
    """
    Return the number of the try that passed, from 1; 0 if none of at most `most` tries did; None if this is unknown.

    It is unknown if a call failed, an answer could not be judged, or a try was not made.
    """
    passed = next((number for number, each in enumerate(tries, start=1) if each.failure_type is None), None)
    if passed is not None:
        return passed
    ended = len(tries) >= most or any(each.failure_type not in REPAIRABLE for each in tries)
    return 0 if ended and not any(each.failure_type in NOT_THE_MODELS for each in tries) else None


class Repairs(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The second tries of a wrong answer, which the verdict of the attempt does not include."""

    #: Maximum number of tries.
    most: Times
    #: Whether the follow-up messages contain what the judge found; false for the control, which only says that the
    #: answer is wrong.
    shows_errors: bool
    #: The tries, in order; the last one passed, unless there are `most`.
    tries: tuple[RepairTry, ...] = write_always(())
    #: Whether json-repair makes the first answer pass without a call; absent if the answer is JSON, or without the
    #: package.
    json_repair: bool | None = None

    @property
    def passed_at(self) -> int | None:
        """Number of the try that passed, from 1; 0 if none did; None if unknown."""
        return count_until_passed(self.tries, self.most)

    @property
    def summary(self) -> str:
        """How the tries ended, in one line; empty before the first try."""
        if not self.tries:
            return ""
        ends = ", ".join("passed" if each.failure_type is None else each.failure_type.value for each in self.tries)
        follow_up = "with the judge's message" if self.shows_errors else "without the judge's message"
        return f"asked for again {follow_up}, {len(self.tries)} of {self.most}: {ends}"

    @property
    def kept(self) -> Repairs:
        """Tries as they are written to disk, without the parts that only the process that made them needs."""
        tries = (
            structs.replace(
                each,
                generation=written_generation(each.generation),
                verdict=structs.replace(each.verdict, instance=None),
            )
            for each in self.tries
        )
        return structs.replace(self, tries=tuple(tries))

    def facts(self) -> RepairFacts:
        """Return the facts about the tries, without texts."""
        return RepairFacts(
            most=self.most,
            shows_errors=self.shows_errors,
            tries=tuple(map(TryFacts.of, self.tries)),
            json_repair=self.json_repair,
        )

    def without_failed_call(self) -> Repairs:
        """Return the tries without a last one whose call failed, so that it is made again."""
        failed = bool(self.tries) and self.tries[-1].failed
        return structs.replace(self, tries=self.tries[:-1]) if failed else self


class RepairFacts(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of the second tries of a wrong answer, without texts."""

    most: int
    shows_errors: bool
    tries: tuple[TryFacts, ...] = ()
    json_repair: bool | None = None

    @property
    def passed_at(self) -> int | None:
        """Number of the try that passed, from 1; 0 if none did; None if unknown."""
        return count_until_passed(self.tries, self.most)
