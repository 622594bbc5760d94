"""Where a validator says something else than the judge, and the classes of that which were decided for the judge."""

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

#: what the letters of an opinion mean
SAYING = {"v": "valid", "i": "invalid", "x": "no JSON", "r": "refused", "u": "undecided", "e": "error"}

#: characters of a schema or text in an example
_SHOWN = 700


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One pair of which one validator says something else than the judge."""

    #: with the one text
    question: Question
    validator: str
    ours: str
    theirs: str
    #: why the judge, and why the validator refused, or broke
    our_why: str
    their_why: str
    #: what everybody else says
    others: Mapping[str, str]
    flags: str = ""

    @property
    def text(self) -> str:
        return self.question.texts[0]

    @property
    def asked(self) -> str:
        """The pattern, or the schema."""
        question = self.question
        return question.pattern if isinstance(question, PatternQuestion) else json.dumps(question.schema)

    def __str__(self) -> str:
        told = f"judge {SAYING[self.ours]}, {self.validator} {SAYING[self.theirs]}"
        why = " / ".join(filter(None, (self.our_why, self.their_why)))
        return f"{self.question.name}: {told} {why}\n    {self.asked[:_SHOWN]}\n    {self.text[:_SHOWN]!r}"


def disagreements(answered: Answered) -> Iterator[Disagreement]:
    """Each pair of the question, once for each validator that says something else."""
    for number in range(len(answered.question.texts)):
        ours = answered.ours.verdicts[number]
        said = {name: opinion.verdicts[number] for name, opinion in answered.others.items()}
        for name, theirs in said.items():
            if theirs != ours:
                yield Disagreement(
                    question=_one(answered.question, number),
                    validator=name,
                    ours=ours,
                    theirs=theirs,
                    our_why=answered.ours.whys.get(number, ""),
                    their_why=answered.others[name].whys.get(number, ""),
                    others={other: letter for other, letter in said.items() if other != name},
                    flags=answered.flags,
                )


def _one(question: Question, number: int) -> Question:
    text = question.texts[number : number + 1]
    if isinstance(question, PatternQuestion):
        return dataclasses.replace(question, texts=text)
    labels = question.labels and question.labels[number : number + 1]
    return dataclasses.replace(question, texts=text, labels=labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedClass:
    """A kind of disagreement that was decided, by `decided.toml`; every condition that is given must hold."""

    name: str
    validators: tuple[str, ...]
    #: what the validator says, as words; any where empty
    says: tuple[str, ...] = ()
    #: searched in what the validator gives as its reason, or in the judge's
    why: str = ""
    our_why: str = ""
    #: of a schema that is nothing but a format: its name, and a search in the string, or in its octets
    formats: tuple[str, ...] = ()
    text: str = ""
    #: whether the library `idna` says of the host, or of the part after @, what the judge says
    idna: bool = False
    #: whether all others that were asked say what the judge says
    alone: bool = False
    #: whether the publisher of the pair says what the judge says
    label: bool = False
    #: whether V8 reads the pattern, or one of the schema's, without the flag `u` only
    legacy: bool = False
    #: the judge says the same as the validator when it is asked this way (`readings.READINGS`)
    reading: str = ""
    #: the validator says what the judge says when it is asked this way, which means the same (`readings.RESTATEMENTS`)
    restated: str = ""
    #: whether only older versions of the validator say it, so that it need not disagree on its example
    of_older: bool = False
    #: what was decided, and by what: a clause of a specification, or the validator's own words
    decided: str
    source: str
    #: the thread where its own project knows of it
    upstream: str = ""
    example: Mapping[str, Any]

    def holds(self, found: Disagreement) -> bool:
        """Whether all conditions hold that need nobody to be asked again."""
        if found.validator not in self.validators or (self.says and SAYING[found.theirs] not in self.says):
            return False
        if not re.search(self.why, found.their_why) or not re.search(self.our_why, found.our_why):
            return False
        # a pair of which one says that it is no JSON cannot be asked in another way
        if (self.reading or self.restated) and "x" in found.ours + found.theirs:
            return False
        if self.alone and set(found.others.values()) != {found.ours}:
            return False
        if self.label and found.others.get("label") != found.ours:
            return False
        if self.legacy and "u" in found.flags:
            return False
        return not self.formats or _holds_of_format(self, found)


def _holds_of_format(decided: DecidedClass, found: Disagreement) -> bool:
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
    """The classes of a file, in the order in which they are tried."""
    tables: list[dict[str, Any]] = tomllib.loads(path.read_text("utf-8"))["class"]
    return [DecidedClass(**{key: _frozen(held) for key, held in table.items()}) for table in tables]


def _frozen(held: Any) -> Any:
    return tuple(held) if isinstance(held, list) else held


def without_example(classes: Sequence[DecidedClass], panel: Panel) -> list[str]:
    """The classes whose example is no disagreement of the class, or not any more."""
    asked = [_asked_by(one) for one in classes]
    found = [list(disagreements(answered)) for answered in panel.ask(asked)]
    decisions = iter(decide([each for one in found for each in one], classes, panel))
    shown = [[next(decisions) for _ in one] for one in found]
    pairs = zip(classes, shown, strict=True)
    return [decided.name for decided, ones in pairs if not decided.of_older and decided not in ones]


def _asked_by(decided: DecidedClass) -> Question:
    example, name = decided.example, f"example of {decided.name!r}"
    if "pattern" in example:
        return PatternQuestion(name=name, pattern=example["pattern"], texts=(example["text"],))
    schema = example["schema"]
    dialect = dialect_of(schema, DRAFT_2020_12) or DRAFT_2020_12
    labels = (example["label"],) if "label" in example else None
    return SchemaQuestion(name=name, schema=schema, dialect=dialect, texts=(example["text"],), labels=labels)


def decide(found: Sequence[Disagreement], classes: Sequence[DecidedClass], panel: Panel) -> list[DecidedClass | None]:
    """The class of each disagreement, None where nobody has decided it yet."""
    decisions: list[DecidedClass | None] = [None] * len(found)
    for decided in classes:
        open_ones = [number for number, one in enumerate(found) if decisions[number] is None and decided.holds(one)]
        for number in _confirmed(decided, found, open_ones, classes, panel):
            decisions[number] = decided
    return decisions


def _confirmed(
    decided: DecidedClass,
    found: Sequence[Disagreement],
    numbers: list[int],
    classes: Sequence[DecidedClass],
    panel: Panel,
) -> Iterable[int]:
    if decided.reading:
        numbers = [number for number in numbers if found[number].ours in "vi" and found[number].theirs in "vi"]
        return [number for number in numbers if _reads_so(found[number], decided.reading, panel)]
    if decided.restated:
        others = [one for one in classes if not one.restated]
        return _restated(decided, found, numbers, others, panel)
    return numbers


def _reads_so(found: Disagreement, name: str, panel: Panel) -> bool:
    assert isinstance(found.question, SchemaQuestion)
    return any(panel.judge(other).verdicts == found.theirs for other in READINGS[name](found.question))


def _restated(
    decided: DecidedClass,
    found: Sequence[Disagreement],
    numbers: list[int],
    others: Sequence[DecidedClass],
    panel: Panel,
) -> Iterator[int]:
    asked: list[tuple[int, Question]] = []
    for number in numbers:
        asked += [(number, other) for other in RESTATEMENTS[decided.restated](found[number].question)]
    answers = panel.ask([question for _, question in asked])
    for (number, _), answered in zip(asked, answers, strict=True):
        before = found[number]
        left = [one for one in disagreements(answered) if one.validator == before.validator]
        same_meaning = answered.ours.verdicts == before.ours
        changed = not left or (left[0].theirs, left[0].their_why) != (before.theirs, before.their_why)
        # nothing is left, or nothing but what another class explains
        if same_meaning and changed and all(decide(left, others, panel)):
            yield number
