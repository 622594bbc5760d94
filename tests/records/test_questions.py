from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.questions import each, find_unmatched_variants, match
from pytest_jsbench.records.records import Missing, MissingReason, Record
from tests.support import examples
from tests.support.examples import record, replace, variants

TWO = examples.variants(a={}, b={"model": "n", "shots": 3, "streaming": False})


def of(variant: str, name: str) -> Record:
    return replace(record(name), variant=variant)


def test_whole_run_has_shared_settings_and_counts_of_different_ones() -> None:
    found = examples.variants(
        a={"params": {"max_tokens": 50, "seed": 1}, "details": {"sdk": "1"}, "provider": "x"},
        b={"params": {"max_tokens": 99, "seed": 1}, "details": {"sdk": "1", "url": "u"}, "model": "n", "shots": 3},
        c={"params": {"max_tokens": 50, "seed": 1}, "details": {"sdk": "1"}, "response_format": "text"},
    )

    assert (found.engine, found.model, found.response_format) == ("scripted", "2 models", "2 response formats")
    assert (found.params, found.details) == ({"seed": 1}, {"sdk": "1"})
    assert (found.shots, found.provider, found.concurrency) == (None, None, 1)
    assert found.variant == ""


def test_a_variant_is_a_run_of_its_own(tmp_path: Path) -> None:
    records = [of("a", "x"), of("b", "x"), of("a", "y"), of("b", "y")]
    lost = Missing(key=CaseKey(task="simple", id="z"), repeat=0, reason=MissingReason.LIMIT, variant="b")
    planned = TWO.with_plan([*[one.attempt for one in records], lost.attempt])
    journal.write(tmp_path / "records.jsonl", planned, records)
    run = replace(journal.read_run(tmp_path).run(tmp_path), missing=(lost,))

    a, b = (run.of_variant(name) for name in run.variants)

    assert (run.variants, a.variants) == (("a", "b"), ())
    assert list(a.records) == records[0::2]
    assert list(b.records) == records[1::2]
    assert [key.id for key in a.planned] == ["x", "y"]
    assert [key.id for key in b.planned] == ["x", "y", "z"]
    assert (a.missing, b.missing) == ((), (lost,))
    assert (a.metadata.variant, a.metadata.model, a.metadata.shots) == ("a", "m", 0)
    assert (b.metadata.variant, b.metadata.model, b.metadata.shots) == ("b", "n", 3)
    assert len(run.planned) == 5


def test_outcome_of_an_unknown_variant_belongs_to_no_variant() -> None:
    run = replace(examples.compared(a="pv", b="pm"), missing=())
    stranger = AttemptFacts.of(of("c", "case00"))

    found = replace(run, outcomes=(*run.outcomes, stranger)).each()

    assert found == run.each()


def test_variants_that_share_a_plan_hold_its_cases_once() -> None:
    metadata = TWO.with_plan(of(name, "x").attempt for name in "ab")

    a, b = replace(examples.run_of_variants(TWO), metadata=metadata).each().values()

    assert [key.id for key in a.planned] == ["x"]
    assert a.planned is b.planned


def test_later_changes_of_shared_settings_apply_to_each_variant() -> None:
    resumed = replace(TWO, resumed_from="earlier", policy={"fences": "forbid"})

    assert {one.resumed_from for one in each(resumed)} == {"earlier"}
    assert resumed.of_variant("b").policy == {"fences": "forbid"}


def test_unknown_variant_raises_key_error() -> None:
    with pytest.raises(KeyError):
        examples.run_of_variants(TWO, of("a", "x")).of_variant("c")


def test_answer_and_failed_call_of_two_variants_are_both_kept(tmp_path: Path) -> None:
    broken = replace(of("b", "x"), generation=examples.failed(), verdict=examples.BROKEN)
    journal.write(tmp_path / "records.jsonl", TWO, [of("a", "x"), broken])

    assert [outcome.variant for outcome in journal.read_run(tmp_path).outcomes] == ["a", "b"]


ONE, SAME = examples.metadata(), {"a": "a", "b": "b"}
PACED: dict[str, Mapping[str, object]] = {"a": {"concurrency": 1}, "b": {"concurrency": 32}}
CHAT = {"prompt": "chat"}
OTHER = {"model": "n"}
AMBIGUOUS = "has ambiguous answers, because several variants have the same settings"


@pytest.mark.parametrize(
    ("theirs", "ours", "matched", "instead"),
    [
        (ONE, variants(a=CHAT, b={}), {"": "b"}, {}),
        (variants(b=CHAT, a={}), variants(a=CHAT, b={}), {"b": "a", "a": "b"}, {}),
        (variants(b=CHAT), variants(a=CHAT, b={}), {"b": "a"}, {"b": AMBIGUOUS}),
        (variants(a=OTHER), variants(a=CHAT, b={}), {}, {"a": 'used model "n"', "b": 'used model "n"'}),
        (variants(a=OTHER, b={}), ONE, {"b": ""}, {}),
        (variants(**PACED), variants(**PACED), SAME, {}),
        (variants(**PACED), variants(**dict(reversed(PACED.items()))), SAME, {}),
        (variants(a={}, b={}), variants(a={}, c={}), {"a": "a"}, {"c": AMBIGUOUS}),
        (ONE, variants(here={}, there={}), {}, dict.fromkeys(["here", "there"], AMBIGUOUS)),
        (variants(here={}, there={}), variants(other={}), {}, {"other": AMBIGUOUS}),
        (variants(there={}), variants(here={}, there={}), {"there": "there"}, {"here": AMBIGUOUS}),
        (variants(a={}, b={}), variants(a={}, b={}), SAME, {}),
    ],
)
def test_variants_match_by_questions_then_name_and_never_ambiguously(
    theirs: RunMetadata, ours: RunMetadata, matched: dict[str, str], instead: dict[str, str]
) -> None:
    others = find_unmatched_variants(theirs, ours)

    assert match(theirs, ours) == matched
    assert others.keys() == {one.variant for one in each(ours)} - set(matched.values())
    assert [name for name, message in others.items() if instead.get(name, "") not in message] == []
