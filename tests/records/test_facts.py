from __future__ import annotations

import gc
import gzip
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_jsbench.core.cases import Expected, Schema
from pytest_jsbench.core.errors import JournalError, RecordError
from pytest_jsbench.core.files import json_line, parse_json
from pytest_jsbench.core.generations import Completion, Decided, Failed, FaultKind
from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.metrics.summary import Summary, summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.facts import AttemptFacts, Place, RecordedVerdict, open_lines
from pytest_jsbench.records.records import Cause, End, ProjectTestOutcome, Record
from pytest_jsbench.records.runs import Records, Run
from pytest_jsbench.schemas.keywords import used_keywords
from pytest_jsbench.values import match
from pytest_jsbench.verdicts import FailureType
from tests.support import examples
from tests.support.examples import replace

ENDS = [
    (examples.PASSED, None),
    (examples.VIOLATED, None),
    (examples.HALLUCINATED, examples.completion(ttft=None, tokens=None)),
    (examples.DISPUTED, examples.batched()),
    (examples.UNSUPPORTED, examples.declined()),
    (examples.BROKEN, examples.failed(FaultKind.SERVER)),
    (examples.DECIDED_WRONGLY, examples.decided("v0", "i1")),
    (examples.UNJUDGED, None),
    (examples.EXCLUDED, None),
]
SCHEMAS: list[Schema] = [{"type": "object", "required": ["n"]}, {"enum": [1]}, True, {"items": {"pattern": "a"}}]


def some_records(seed: int, *, count: int = 60) -> list[Record]:
    chance = random.Random(seed)
    records = []
    for number in range(count):
        verdict, generation = chance.choice(ENDS if seed % 2 else [*ENDS[:6], *ENDS[7:]])  # labelled or not
        one = examples.record(
            f"c{number // 2}",
            task=f"t{number // 2 % 3}",
            verdict=verdict,
            generation=generation,
            schema=SCHEMAS[number // 2 % 4],
        )
        codes = ("own",) if chance.random() < 0.2 else ()
        records.append(
            replace(one, repeat=number % 2, retries=chance.randrange(3), queue_s=chance.random(), codes=codes)
        )
    return records


def sent_by_worker(outcome: AttemptFacts) -> AttemptFacts:
    return from_json(AttemptFacts, parse_json(json_line(to_json(outcome))))


def written(path: Path, records: Sequence[Record]) -> Run:
    journal.write(path, examples.metadata().with_plan(one.attempt for one in records), records)
    return journal.read(path).run(path)


@pytest.mark.parametrize("seed", range(5))
def test_metrics_of_outcomes_equal_those_of_records(seed: int, tmp_path: Path) -> None:
    records = some_records(seed)

    summary = summarize(written(tmp_path / "records.jsonl", records))

    excluded = {one.key for one in records if one.excluded}
    counted = [one for one in records if not one.excluded]
    completions = [one for one in counted if isinstance(one.generation, Completion)]
    decided = [one.generation for one in counted if isinstance(one.generation, Decided)]
    decisions = [decision for one in decided for decision in one.decisions]
    total = summary.total
    assert total.planned == sum(one.key not in excluded for one in records)
    assert (total.excluded, total.completions) == (len(records) - len(counted), len(completions) + len(decided))
    assert total.passed == sum(one.verdict.passed for one in counted if one.key not in excluded)
    assert total.failed == sum(isinstance(one.generation, Failed) for one in counted)
    assert total.valid == sum(one.verdict.valid is True for one in completions)
    kinds = Counter(one.verdict.failure_type for one in counted)
    assert {kind: count for kind, count in total.failure_counts.items() if count} == {
        kind: count for kind, count in kinds.items() if kind is not None
    }
    assert total.retries == sum(one.retries for one in counted)
    assert total.code_counts.get("own", 0) == sum(one.codes == ("own",) for one in counted)
    assert total.queue.ordered == tuple(sorted(one.queue_s for one in counted if one.queue_s is not None))
    times = [one.generation.timing for one in completions if isinstance(one.generation, Completion)]
    assert total.ttft.ordered == tuple(sorted(one.ttft for one in times if one is not None and one.ttft is not None))
    usages = [one.generation.usage for one in completions if isinstance(one.generation, Completion)]
    assert total.tokens.output_tokens == sum(one.output_tokens or 0 for one in usages)
    assert total.over_constraint.successes == sum(one.wrong for one in decisions if one.valid)
    assert total.under_constraint.n == sum(not one.valid for one in decisions)
    uses = Counter(name for one in counted for name in used_keywords(one.schema))
    assert {name: found.pass_rate.n for name, found in summary.keywords.items() if found.pass_rate.n} == dict(uses)
    broken = Counter(name for one in counted for name in {each.keyword for each in one.verdict.violations})
    # decisions cannot be assigned to keywords
    expected = dict.fromkeys(summary.keywords) if decided else {name: broken[name] for name in summary.keywords}
    assert {name: found.failures for name, found in summary.keywords.items()} == expected


@pytest.mark.parametrize("seed", range(3))
def test_a_run_in_memory_on_disk_and_sent_by_a_worker_has_the_same_summary(seed: int, tmp_path: Path) -> None:
    records = some_records(seed)
    on_disk = written(tmp_path / "records.jsonl", records)
    sent = [sent_by_worker(one) for one in on_disk.outcomes]

    in_memory = examples.of_records(on_disk.metadata, on_disk.planned, records)
    runs = (in_memory, on_disk, replace(on_disk, outcomes=tuple(sent)))
    summaries: list[Summary] = [summarize(run) for run in runs]

    assert summaries[0] == summaries[1] == summaries[2]
    assert tuple(sent) == on_disk.outcomes


def test_outcomes_of_a_worker_share_strings_of_path_and_task(tmp_path: Path) -> None:
    run = written(tmp_path / "records.jsonl", [examples.record("a"), examples.record("b")])
    first, second = (sent_by_worker(one) for one in run.outcomes)

    assert isinstance(first.source, Place)
    assert isinstance(second.source, Place)
    assert first.source.path is second.source.path
    assert first.key.task is second.key.task


def test_records_are_read_from_disk_in_the_order_of_the_run(tmp_path: Path) -> None:
    records = some_records(1, count=6)
    run = written(tmp_path / "records.jsonl", records)
    turned = replace(run, outcomes=run.outcomes[::-1]).records

    assert list(turned) == records[::-1]
    assert (turned[0], turned[-1], len(turned)) == (records[-1], records[0], 6)
    assert list(turned[1:3]) == [records[4], records[3]]


def test_records_of_a_packed_file_are_read(tmp_path: Path) -> None:
    records = some_records(2, count=4)
    written(tmp_path / "records.jsonl", records)
    packed = tmp_path / "records.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "records.jsonl").read_bytes()))

    assert list(Records(journal.read(packed).outcomes)) == records


def test_file_changed_meanwhile_is_one_line(tmp_path: Path) -> None:
    run = written(tmp_path / "records.jsonl", some_records(1, count=2))
    (tmp_path / "records.jsonl").write_text("{}\n" * 500)

    with pytest.raises(RecordError, match=r"records\.jsonl: no such record at byte \d+: the file was changed"):
        list(run.records)

    (tmp_path / "records.jsonl").unlink()
    with pytest.raises(JournalError, match=r"records\.jsonl: cannot be read"):
        run.records[0]


def test_record_that_only_the_slow_parser_reads_is_read(tmp_path: Path) -> None:
    one = examples.record("a", schema={"title": "\ud800"})
    run = written(tmp_path / "records.jsonl", [one])

    assert list(run.records) == [one]
    with open_lines() as lines:
        assert run.outcomes[0].read_verdict(lines) == RecordedVerdict.of(one)


def test_verdict_is_read_as_in_the_whole_record(tmp_path: Path) -> None:
    expected = Expected(value={"n": 2})
    ended = ProjectTestOutcome(end=End.FAILED, cause=Cause.ASSERTION, message="two")
    records = [*some_records(1, count=20), replace(examples.record("b"), match=match(expected, {}), test_outcome=ended)]
    run = written(tmp_path / "records.jsonl", records)
    in_memory = examples.of_records(run.metadata, run.planned, records)

    with open_lines() as lines:
        for outcomes in (run.outcomes, in_memory.outcomes):
            assert [one.read_verdict(lines) for one in outcomes] == list(map(RecordedVerdict.of, records))


def test_verdict_of_another_record_at_the_same_place_is_detected(tmp_path: Path) -> None:
    records = [replace(examples.record("a"), repeat=number) for number in range(2)]
    run = written(tmp_path / "records.jsonl", records)
    journal.write(tmp_path / "records.jsonl", run.metadata, records[::-1])

    with open_lines() as lines, pytest.raises(RecordError, match="the file was changed"):
        run.outcomes[0].read_verdict(lines)


def test_rewritten_records_are_copied_with_their_new_places(tmp_path: Path) -> None:
    records = some_records(3, count=8)
    run = written(tmp_path / "one.jsonl", records)
    foreign = (tmp_path / "one.jsonl").read_text().replace('"answer"', '"antwört"').rstrip("\n")
    (tmp_path / "one.jsonl").write_text(foreign, encoding="utf-8")
    run = journal.read(tmp_path / "one.jsonl").run(tmp_path)
    sources: list[Place | Record] = [one.source for one in run.outcomes[::-1]]

    places = list(journal.write(tmp_path / "two.jsonl", run.metadata, [*sources, records[0]]))

    copied = journal.read(tmp_path / "two.jsonl")
    assert list(Records(copied.outcomes)) == [*Records(run.outcomes)[::-1], records[0]]
    assert [one.source for one in copied.outcomes] == places


def test_other_record_at_the_same_place_is_detected(tmp_path: Path) -> None:
    records = [replace(examples.record("a"), repeat=number) for number in range(2)]
    run = written(tmp_path / "records.jsonl", records)
    journal.write(tmp_path / "records.jsonl", run.metadata, records[::-1])

    with pytest.raises(RecordError, match="the file was changed"):
        list(run.records)


def test_truncated_file_is_not_copied_as_empty(tmp_path: Path) -> None:
    run = written(tmp_path / "one.jsonl", some_records(3, count=2))
    (tmp_path / "one.jsonl").write_bytes((tmp_path / "one.jsonl").read_bytes()[:-9])

    with pytest.raises(RecordError, match=r"one\.jsonl: no such record at byte"):
        journal.write(tmp_path / "two.jsonl", run.metadata, [one.source for one in run.outcomes])

    assert not (tmp_path / "two.jsonl").exists()


def test_outcome_has_no_schema_prompt_or_answer(tmp_path: Path) -> None:
    message = examples.completion('"a secret answer"')
    run = written(tmp_path / "records.jsonl", [examples.record("a", generation=message, schema={"title": "a secret"})])

    assert "secret" not in json.dumps(to_json(run.outcomes[0])).replace(str(tmp_path), "")


def test_parts_of_the_record_and_the_verdict_are_not_copied() -> None:
    record = examples.record("a", generation=examples.batched(), verdict=examples.DISPUTED)
    facts = AttemptFacts.of(record)

    assert (facts.timing, facts.batch, facts.notes) == (None, "batch_1", record.verdict.notes)
    assert facts.usage is record.usage
    assert facts.asked_by is record.asked_by
    assert facts.disputed


def test_garbage_collector_visits_no_facts(tmp_path: Path) -> None:
    (facts,) = written(tmp_path / "records.jsonl", [examples.record("a")]).outcomes

    assert not gc.is_tracked(facts)
    assert not gc.is_tracked(facts.source)


def test_facts_have_no_texts_of_a_comparison_or_a_test() -> None:
    found = match(Expected(value={"n": 1}), {"n": "a secret"})
    failed = ProjectTestOutcome(end=End.FAILED, cause=Cause.ASSERTION, field="a secret", message="a secret")
    facts = AttemptFacts.of(replace(examples.record("a"), match=found, test_outcome=failed))

    assert facts.match == found.counts()
    assert facts.test_outcome == ProjectTestOutcome(end=End.FAILED, cause=Cause.ASSERTION)


def test_a_record_that_no_disk_has_is_sent_with_its_outcome() -> None:
    outcome = AttemptFacts.of(examples.record("a"))

    assert outcome.read() == sent_by_worker(outcome).read() == examples.record("a")


def test_each_kind_of_generation_is_distinguished() -> None:
    kinds = [AttemptFacts.of(examples.record("a", verdict=verdict, generation=one)) for verdict, one in ENDS]

    assert [one.generation_type for one in kinds] == [
        *["completion"] * 4,
        "declined",
        "failed",
        "decided",
        "completion",
        None,
    ]
    assert [one.failing for one in kinds] == [False, True, True, False, True, True, True, True, False]
    assert kinds[-1].failure_type is FailureType.INVALID_SCHEMA


def test_facts_of_equal_attempts_share_names_and_digests() -> None:
    record = examples.record("c0", verdict=examples.VIOLATED, schema={"type": "object", "required": ["n"]})
    first, second = (
        from_json(AttemptFacts, parse_json(json_line(to_json(AttemptFacts.of(replace(record, repeat=number))))))
        for number in range(2)
    )
    assert first.keywords
    assert first.keywords is second.keywords
    assert first.broken is second.broken
    assert first.schema_digest
    assert first.schema_digest is second.schema_digest
    assert first.prompt_digest is second.prompt_digest
