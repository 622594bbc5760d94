"""Check what load does to a server: requests without a schema among others with one, and requests after the load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_jsbench.lab.probe.check import Bench, Check, CheckFinding, CheckPlan, ServerFault, faulty, sound, undecided
from pytest_jsbench.lab.probe.enforcement import BLAMES_LOAD, Replies, Reply, ReplyKind
from pytest_jsbench.lab.probe.question_calls import QuestionCall
from pytest_jsbench.lab.probe.questions import ProbeQuestion, any_question
from pytest_jsbench.metrics.statistics import one_sided_fisher

#: Maximum number of concurrent calls, and number of questions for each; half of the questions have no schema.
_MOST_IN_FLIGHT = 8
_PER_CALL = 3
#: Number of questions that are sent one at a time, for comparison.
_ALONE = 12


def _in_flight(plan: CheckPlan) -> int:
    """Return the number of concurrent calls: the highest level, or the maximum if the level is higher."""
    return min(max(plan.levels), _MOST_IN_FLIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MixedLoad:
    """Replies to questions without a schema, alone and among others, and to the others."""

    alone: Replies
    plain: Replies
    constrained: Replies

    @property
    def share(self) -> str:
        """The numbers of right answers without a schema, in words."""
        right = f"{_count_right(self.plain)} of {self.plain.decided}"
        return f"{right} answers without a schema are right, {_count_right(self.alone)} of {self.alone.decided} alone"

    @property
    def wrong(self) -> Reply | None:
        """A reply that shows a fault; None if there is none."""
        mixed = (*self.plain.replies, *self.constrained.replies)
        wrong = [reply for reply in mixed if reply.kind is ReplyKind.MIXED_UP]
        corrupted = [reply for reply in self.plain.replies if not _is_right(reply)]
        return next(iter((*wrong, *self.constrained.wrong_replies, *corrupted)), None)

    def faults(self) -> Iterator[tuple[ServerFault, str]]:
        """Yield the faults that the replies show, except a schema that is not enforced."""
        words = "contain words of other requests"
        if count := self.plain.count(ReplyKind.MIXED_UP):
            yield ServerFault.PLAIN_MIXED_UP, f"{count} of {self.plain.decided} answers without a schema {words}"
        elif self.alone.decided and self.plain.decided:
            alone = (_count_right(self.alone), self.alone.decided)
            if one_sided_fisher(alone, (_count_right(self.plain), self.plain.decided)) <= BLAMES_LOAD:
                yield ServerFault.PLAIN_CORRUPTED, self.share
        if count := self.constrained.count(ReplyKind.MIXED_UP):
            yield (
                ServerFault.CONSTRAINED_MIXED_UP,
                f"{count} of {self.constrained.decided} answers with a schema {words}",
            )


def _is_right(reply: Reply) -> bool:
    """Return whether an answer contains the requested text, and no words of other requests."""
    return reply.kind is not ReplyKind.MIXED_UP and reply.wanted in reply.text


def _count_right(replies: Replies) -> int:
    return sum(map(_is_right, replies.replies))


def check_mixed_load(bench: Bench) -> CheckFinding:
    """Send questions with and without a schema concurrently, and compare those without with the same sent alone."""
    check, in_flight = "mixed_load", _in_flight(bench.plan)
    alone = bench.questions.ask([_plain(bench) for _ in range(_ALONE)], in_flight=1)
    asked = [_constrained(bench) if number % 2 else _plain(bench) for number in range(_PER_CALL * in_flight)]
    replies = bench.questions.ask(asked, in_flight=in_flight).replies
    load = _MixedLoad(
        alone=alone,
        plain=Replies(planned=len(asked[::2]), replies=replies[::2]),
        constrained=Replies(planned=len(asked[1::2]), replies=replies[1::2]),
    )
    found = dict(load.faults())
    conforming = f"{load.constrained.conforming} of {load.constrained.decided} with a schema conform"
    if load.constrained.count(ReplyKind.VIOLATES) and _is_enforced_alone(bench):
        found[ServerFault.SCHEMA_DROPPED] = f"{conforming}, and all alone"
    if found:
        return faulty(check, f"at {in_flight} in flight, {'; '.join(found.values())}", found, _example(load.wrong))
    for part in (load.alone, load.plain, load.constrained):
        if not part.decided:
            return undecided(check, part.message or "interrupted")
    if not _count_right(load.alone):
        return undecided(check, f"no words of other requests, but the model does not repeat a text: {load.share}")
    return sound(check, f"at {in_flight} in flight, {load.share}; {conforming}")


def _plain(bench: Bench) -> QuestionCall:
    """Return a question without a schema."""
    question = ProbeQuestion(schema=True, wanted=bench.words.wrong())
    return QuestionCall(variant=bench.plan.plain, question=question)


def _constrained(bench: Bench) -> QuestionCall:
    return QuestionCall(variant=bench.plan.constrained, question=any_question(bench.words, plain=False))


def _is_enforced_alone(bench: Bench) -> bool:
    """Return whether the schema is enforced one call at a time; otherwise the load is not the cause."""
    alone = bench.questions.ask([_constrained(bench) for _ in range(_ALONE)], in_flight=1)
    return alone.conforming > 0 and not alone.wrong


def _example(reply: Reply | None) -> tuple[tuple[str, str], ...]:
    if reply is None:
        return ()
    return (("the prompt asked for", reply.wanted), ("the server answered", reply.text))


def check_after_load(bench: Bench) -> CheckFinding:
    """Ask the control questions again after the load, and compare the answers with those before."""
    check = "after_load"
    after = bench.ask_controls()
    found: dict[ServerFault, str] = {}
    parts, failed = [], []
    for shown, replies in after.items():
        before = bench.controls[shown]
        if not replies.decided or not (before.decided or replies.count(ReplyKind.MIXED_UP)):
            failed.append((replies if not replies.decided else before).message or "interrupted")
            continue
        where = "without a schema" if shown == "nowhere" else f"with the schema in the {shown}"
        counts = f"{replies.conforming} of {replies.decided} conform (before: {before.conforming} of {before.decided})"
        parts.append(f"{where}, {counts}")
        if count := replies.count(ReplyKind.MIXED_UP):
            said = f"{count} of {replies.decided} answers contain words of other requests"
            found.setdefault(ServerFault.CONTROL_MIXED_UP, said)
        elif _has_changed(before, replies):
            found.setdefault(ServerFault.CONTROL_CHANGED, parts[-1])
    if found:
        wrong = next((each for replies in after.values() for each in replies.replies if _shows(each, found)), None)
        said = f"requests without a response format are answered differently: {'; '.join(found.values())}"
        return faulty(check, said, found, _example(wrong))
    if failed:
        return undecided(check, failed[0])
    return sound(check, "; ".join(parts))


def _has_changed(before: Replies, after: Replies) -> bool:
    """Return whether conforming answers have become more or less frequent than by chance."""
    counts = [(each.conforming, each.decided) for each in (before, after)]
    return min(one_sided_fisher(*counts), one_sided_fisher(*reversed(counts))) <= BLAMES_LOAD


def _shows(reply: Reply, found: dict[ServerFault, str]) -> bool:
    kind = ReplyKind.MIXED_UP if ServerFault.CONTROL_MIXED_UP in found else ReplyKind.CONFORMS
    return reply.kind is kind


def _needs_load(plan: CheckPlan) -> str:
    if not plan.plain:
        return "the engine always sends a response format"
    return "" if _in_flight(plan) > 1 else "needs --concurrency of 2 or more"


def _needs_mixed(plan: CheckPlan) -> str:
    return _needs_load(plan) or ("" if plan.constrained else "no response format with a schema is probed")


LOAD_CHECKS = (
    Check(
        name="mixed_load",
        calls=lambda plan: _ALONE + _PER_CALL * _in_flight(plan),
        obstacle=_needs_mixed,
        run=check_mixed_load,
    ),
    Check(
        name="after_load",
        calls=lambda plan: plan.control_calls * len(plan.controls),
        obstacle=_needs_load,
        run=check_after_load,
    ),
)
