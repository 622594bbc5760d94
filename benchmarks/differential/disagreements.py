"""Disagreements between the judge and other validators, and the classes that were decided in the judge's favour."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import idna

from benchmarks.differential.opinions import Answered, Panel
from benchmarks.differential.questions import PatternQuestion, Question, SchemaQuestion
from benchmarks.differential.readings import READINGS, RESTATEMENTS
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, dialect_of

#:  Meanings of the letters of an opinion.
VERDICT_NAMES = {"v": "valid", "i": "invalid", "x": "not JSON", "r": "rejected", "u": "undecided", "e": "error"}

#:  Maximum number of characters of a schema or text in an example.
_MAX_SHOWN = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One pair on which one validator disagrees with the judge."""

    #:  The question, reduced to this pair's text.
    question: Question
    validator: str
    ours: str
    theirs: str
    #:  Reasons of the judge and of the validator if they rejected the schema or failed.
    our_why: str
    their_why: str
    #:  Verdicts of all other validators, by name.
    others: Mapping[str, str]
    flags: str = ""

    @property
    def text(self) -> str:
        return self.question.texts[0]

    @property
    def subject(self) -> str:
        """The pattern, or the schema as JSON."""
        question = self.question
        return question.pattern if isinstance(question, PatternQuestion) else json.dumps(question.schema)

    def __str__(self) -> str:
        verdicts = f"judge {VERDICT_NAMES[self.ours]}, {self.validator} {VERDICT_NAMES[self.theirs]}"
        why = " / ".join(filter(None, (self.our_why, self.their_why)))
        return (
            f"{self.question.name}: {verdicts} {why}\n    {self.subject[:_MAX_SHOWN]}\n    {self.text[:_MAX_SHOWN]!r}"
        )


def disagreements(answered: Answered) -> Iterator[Disagreement]:
    """Yield each pair of the question, once for each validator that disagrees with the judge."""
    for number in range(len(answered.question.texts)):
        ours = answered.ours.verdicts[number]
        verdicts = {name: opinion.verdicts[number] for name, opinion in answered.others.items()}
        for name, theirs in verdicts.items():
            if theirs != ours:
                yield Disagreement(
                    question=_with_one_text(answered.question, number),
                    validator=name,
                    ours=ours,
                    theirs=theirs,
                    our_why=answered.ours.whys.get(number, ""),
                    their_why=answered.others[name].whys.get(number, ""),
                    others={other: letter for other, letter in verdicts.items() if other != name},
                    flags=answered.flags,
                )


def _with_one_text(question: Question, number: int) -> Question:
    text = question.texts[number : number + 1]
    if isinstance(question, PatternQuestion):
        return dataclasses.replace(question, texts=text)
    labels = question.labels and question.labels[number : number + 1]
    return dataclasses.replace(question, texts=text, labels=labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedClass:
    """A kind of disagreement that `decided.toml` decides; all given conditions must be met."""

    name: str
    validators: tuple[str, ...]
    #:  Accepted verdicts of the validator, as words; any if empty.
    verdicts: tuple[str, ...] = ()
    #:  Regular expressions to find in the validator's reason and in the judge's.
    why: str = ""
    our_why: str = ""
    #:  Names of the format, if the schema has no other keyword; `text` is a regular expression to find in the string or
    #: its octets.
    formats: tuple[str, ...] = ()
    text: str = ""
    #:  Whether the library `idna` must agree with the judge about the host, or about the part after @.
    idna: bool = False
    #:  Whether all other validators must agree with the judge.
    alone: bool = False
    #:  Whether the publisher's label must agree with the judge.
    label: bool = False
    #:  Whether V8 must need to drop the flag `u` to accept the pattern, or one of the schema's.
    legacy: bool = False
    #:  Reading (`readings.READINGS`) under which the judge must agree with the validator.
    reading: str = ""
    #:  Restatement without a change of meaning (`readings.RESTATEMENTS`) for which the validator must agree with the
    #: judge.
    restated: str = ""
    #:  Whether only older versions of the validator disagree, so that the example need not show it.
    older_versions_only: bool = False
    #:  The decision, and its source: a clause of a specification, or the validator's own documentation.
    decided: str
    source: str
    #:  Issue in the validator's own project; empty if there is none.
    upstream: str = ""
    example: Mapping[str, Any]

    def matches(self, found: Disagreement) -> bool:
        """Return whether all conditions are met that need no further validation."""
        if found.validator not in self.validators or (
            self.verdicts and VERDICT_NAMES[found.theirs] not in self.verdicts
        ):
            return False
        if not re.search(self.why, found.their_why) or not re.search(self.our_why, found.our_why):
            return False
        #  a pair cannot be rewritten if a validator does not accept its text as JSON
        if (self.reading or self.restated) and "x" in found.ours + found.theirs:
            return False
        if self.alone and set(found.others.values()) != {found.ours}:
            return False
        if self.label and found.others.get("label") != found.ours:
            return False
        if self.legacy and "u" in found.flags:
            return False
        return not self.formats or _matches_format(self, found)


def _matches_format(decided: DecidedClass, found: Disagreement) -> bool:
    schema = found.question.schema if isinstance(found.question, SchemaQuestion) else None
    if not isinstance(schema, dict) or schema.keys() - {"$schema"} != {"format"}:
        return False
    text = json.loads(found.text)
    if decided.idna and _is_idna(text.rpartition("@")[2]) is not (found.ours == "v"):
        return False
    octets = text.encode().decode("latin-1")
    return schema["format"] in decided.formats and any(re.search(decided.text, each) for each in (text, octets))


def _is_idna(host: str) -> bool:
    try:
        idna.encode(host, strict=True)
    except idna.IDNAError:
        return False
    return True


def load(path: Path) -> Sequence[DecidedClass]:
    """Load the classes of a file, in the order in which they are tried."""
    tables: list[dict[str, Any]] = tomllib.loads(path.read_text("utf-8"))["class"]
    return [DecidedClass(**{key: _freeze(inner) for key, inner in table.items()}) for table in tables]


def _freeze(inner: Any) -> Any:
    return tuple(inner) if isinstance(inner, list) else inner


def classes_without_example(classes: Sequence[DecidedClass], panel: Panel) -> list[str]:
    """Return the names of the classes whose example is not, or no longer, a disagreement of the class."""
    questions = [_question_of_example(one) for one in classes]
    found = [list(disagreements(answered)) for answered in panel.evaluate(questions)]
    decisions = iter(decide([each for one in found for each in one], classes, panel))
    shown = [[next(decisions) for _ in one] for one in found]
    pairs = zip(classes, shown, strict=True)
    return [decided.name for decided, ones in pairs if not decided.older_versions_only and decided not in ones]


def _question_of_example(decided: DecidedClass) -> Question:
    example, name = decided.example, f"example of {decided.name!r}"
    if "pattern" in example:
        return PatternQuestion(name=name, pattern=example["pattern"], texts=(example["text"],))
    schema = example["schema"]
    dialect = dialect_of(schema, DRAFT_2020_12) or DRAFT_2020_12
    labels = (example["label"],) if "label" in example else None
    return SchemaQuestion(name=name, schema=schema, dialect=dialect, texts=(example["text"],), labels=labels)


def decide(found: Sequence[Disagreement], classes: Sequence[DecidedClass], panel: Panel) -> list[DecidedClass | None]:
    """Return the class of each disagreement; None if it is undecided."""
    decisions: list[DecidedClass | None] = [None] * len(found)
    for decided in classes:
        open_ones = [number for number, one in enumerate(found) if decisions[number] is None and decided.matches(one)]
        for number in _confirm(decided, found, open_ones, classes, panel):
            decisions[number] = decided
    return decisions


def _confirm(
    decided: DecidedClass,
    found: Sequence[Disagreement],
    numbers: list[int],
    classes: Sequence[DecidedClass],
    panel: Panel,
) -> Iterable[int]:
    if decided.reading:
        numbers = [number for number in numbers if found[number].ours in "vi" and found[number].theirs in "vi"]
        return [number for number in numbers if _has_reading(found[number], decided.reading, panel)]
    if decided.restated:
        others = [one for one in classes if not one.restated]
        return _confirm_restatements(decided, found, numbers, others, panel)
    return numbers


def _has_reading(found: Disagreement, name: str, panel: Panel) -> bool:
    assert isinstance(found.question, SchemaQuestion)
    return any(panel.judge(other).verdicts == found.theirs for other in READINGS[name](found.question))


def _confirm_restatements(
    decided: DecidedClass,
    found: Sequence[Disagreement],
    numbers: list[int],
    others: Sequence[DecidedClass],
    panel: Panel,
) -> Iterator[int]:
    questions: list[tuple[int, Question]] = []
    for number in numbers:
        questions += [(number, other) for other in RESTATEMENTS[decided.restated](found[number].question)]
    answers = panel.evaluate([question for _, question in questions])
    for (number, _), answered in zip(questions, answers, strict=True):
        before = found[number]
        left = [one for one in disagreements(answered) if one.validator == before.validator]
        same_meaning = answered.ours.verdicts == before.ours
        changed = not left or (left[0].theirs, left[0].their_why) != (before.theirs, before.their_why)
        #  no disagreement is left, or only one that another class explains
        if same_meaning and changed and all(decide(left, others, panel)):
            yield number
