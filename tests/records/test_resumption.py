from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Prompt
from pytest_jsbench.core.errors import JournalError, ResumeError
from pytest_jsbench.core.messages import Message
from pytest_jsbench.prompts.named import schema_prompt
from pytest_jsbench.records import journal
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.records import AskedBy, Attempt, Record
from pytest_jsbench.records.resumption import Recorded, Resumption, resume
from tests.support import examples
from tests.support.examples import replace

SCHEMA = {"type": "object"}


def key(case_id: str) -> CaseKey:
    return CaseKey(task="simple", id=case_id)


def record_of(case_id: str, *, schema: Any = SCHEMA, **changes: Any) -> Record:
    record = examples.record(case_id, schema=schema)
    return replace(record, prompt=schema_prompt(Case(key=key(case_id), schema=schema)), **changes)


def resumed(path: Path, cases: Mapping[str, Any], *, repeats: int = 1, **metadata: Any) -> Resumption:
    def load(wanted: CaseKey) -> Case | BrokenCase:
        return Case(key=wanted, schema=cases[wanted.id])

    now = replace(examples.metadata(), repeats=repeats, **metadata)
    return resume(path, now, [key(name) for name in cases], load=load, templates={"": schema_prompt})


def ids(resumption: Resumption) -> list[str]:
    return [answer.key.id for answer in resumption.answers]


def test_resume_reuses_answers_but_not_failed_calls(tmp_path: Path) -> None:
    broken = record_of("broken", generation=examples.failed(), verdict=examples.BROKEN)
    excluded = record_of("excluded", generation=None, verdict=examples.EXCLUDED)
    declined = record_of("declined", generation=examples.declined(), verdict=examples.UNSUPPORTED)
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record_of("a"), broken, excluded, declined])

    found = resumed(tmp_path, dict.fromkeys(["a", "broken", "excluded", "declined", "new"], SCHEMA))

    assert ids(found) == ["a", "declined"]
    assert (found.broken, found.left_out) == (1, 0)


def test_schema_edited_in_the_file_does_not_match_despite_its_digest(
    tmp_path: Path,
) -> None:
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record_of("a"), record_of("b")])
    text = (tmp_path / "records.jsonl").read_text()
    (tmp_path / "records.jsonl").write_text(text.replace('"schema":{"type":"object"}', '"schema":{"type":"array"}', 1))

    assert ids(resumed(tmp_path, {"a": SCHEMA, "b": SCHEMA})) == ["b"]


def test_an_answer_to_another_question_is_left_out(tmp_path: Path) -> None:
    repeated = record_of("repeated", repeat=1)
    reworded = replace(record_of("reworded"), prompt=schema_prompt(Case(key=key("x"), schema=True)))
    records = [record_of("same"), record_of("changed"), record_of("gone"), repeated, reworded]
    journal.write(tmp_path / "records.jsonl", examples.metadata(), records)

    found = resumed(tmp_path, {"same": SCHEMA, "changed": {"type": "array"}, "repeated": SCHEMA, "reworded": SCHEMA})

    assert ids(found) == ["same"]
    assert found.left_out == 4
    assert len(resumed(tmp_path, {"repeated": SCHEMA}, repeats=2).answers) == 1


def test_case_with_its_own_messages_matches_by_these(tmp_path: Path) -> None:
    words = (Message(role="user", content="its own words"),)
    record = replace(record_of("a"), prompt=Prompt(messages=words))
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record])
    case = Case(key=key("a"), schema=SCHEMA, messages=words)

    found = resume(tmp_path, examples.metadata(), [key("a")], load=lambda _: case, templates={"": schema_prompt})

    assert ids(found) == ["a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "other"}, 'its run used model "m", this run "other"; none of its answers can be reused'),
        ({"engine": "openai"}, 'engine "scripted"'),
        ({"adapt": "narrow:openai"}, 'adapt "verbatim"'),
        ({"params": {"max_tokens": 2048, "temperature": 0.5, "seed": None}}, "used temperature null"),
        ({"details": {"strict": True}}, "used the engine options {}"),
    ],
)
def test_resume_rejects_a_run_of_another_engine(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record_of("a")])

    with pytest.raises(ResumeError) as caught:
        resumed(tmp_path, {"a": SCHEMA}, **change)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change", [{"details": {"openai": "3.53.0", "slots": 8}}, {"concurrency": 64}, {"policy": {"fences": "forbid"}}]
)
def test_settings_that_do_not_affect_answers_do_not_prevent_resuming(tmp_path: Path, change: dict[str, Any]) -> None:
    earlier = replace(examples.metadata(), details={"openai": "3.52.0", "slots": 4})
    journal.write(tmp_path / "records.jsonl", earlier, [record_of("a")])

    assert ids(resumed(tmp_path, {"a": SCHEMA}, **change)) == ["a"]


def test_resume_reads_all_files_of_a_killed_run(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "2"
    run.mkdir(parents=True)
    (tmp_path / "runs" / "1").mkdir()
    journal.write(tmp_path / "runs" / "1" / "records.jsonl", examples.metadata(), [record_of("old")])
    (run / "records.jsonl").touch()
    failed = record_of("a", generation=examples.failed(), verdict=examples.BROKEN)
    journal.write(run / journal.RESUMED, examples.metadata(), [record_of("a"), record_of("b", started_at="earlier")])
    journal.write(run / "records.gw0.jsonl", examples.metadata(), [record_of("b", started_at="later")])
    journal.write(run / "records.gw1.jsonl", examples.metadata(), [failed, record_of("c")])
    torn = run / "records.gw1.jsonl"
    torn.write_text(torn.read_text()[:-30])

    found = resumed(tmp_path / "runs", dict.fromkeys("abc", SCHEMA))

    assert [(record.key.id, record.started_at) for record in found.answers] == [
        ("a", "2026-11-21T10:00:00.000+00:00"),
        ("b", "later"),
    ]
    (warning,) = found.warnings
    assert "records.gw1.jsonl:3" in warning
    assert "damaged" in warning


@pytest.mark.parametrize("name", ["other", "missing.jsonl"])
def test_resume_reports_a_missing_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()

    with pytest.raises(JournalError, match=f"{name}"):
        resumed(tmp_path / name, {"a": SCHEMA})


def test_resume_rejects_a_file_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").touch()

    with pytest.raises(ResumeError, match="no header line"):
        resumed(tmp_path / "records.jsonl", {"a": SCHEMA})


@pytest.mark.parametrize(
    ("left", "warning"),
    [("records.jsonl", ""), ("runs/1/", "is empty"), ("runs/1/records.jsonl", "damaged")],
    ids=["before its first answer", "before it had a file", "within its first line"],
)
def test_run_killed_at_its_start_is_resumed(tmp_path: Path, left: str, warning: str) -> None:
    folder, _, file = left.rpartition("/")
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    if file:
        journal.write(tmp_path / left, examples.metadata(), [])
        (tmp_path / left).write_text((tmp_path / left).read_text()[: 50 if warning else 0])

    found = resumed(tmp_path / folder.partition("/")[0], {"a": SCHEMA})

    assert (found.metadata, found.answers) == (None, ())
    assert warning in "".join(found.warnings)


def _case(wanted: CaseKey) -> Case:
    return Case(key=wanted, schema=SCHEMA)


def test_a_run_without_answers_does_not_hide_an_earlier_one(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
    journal.write(tmp_path / "1" / "records.jsonl", examples.metadata(), [record_of("a")])
    (tmp_path / "2" / "records.jsonl").touch()

    assert ids(resumed(tmp_path, {"a": SCHEMA})) == ["a"]


def test_recorded_attempts_are_found_by_case_and_repeat(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    records = [record_of("a", generation=examples.completion('"\ud800ü"')), record_of("a", repeat=1), record_of("b")]
    journal.write(path, examples.metadata(), records)

    recorded = Recorded(path)

    assert [recorded.get(record.attempt) for record in records] == records
    assert recorded.get(Attempt(key("b"), 1)) is None
    assert Attempt(key("a"), 1) in recorded
    assert Recorded().get(Attempt(key("a"), 0)) is None


def test_answers_to_own_tests_are_kept_apart_until_their_tests_ask(tmp_path: Path) -> None:
    own = record_of("test_it", asked_by=AskedBy(test="test_a.py::test_it", terms="sha256:0"))
    broken = replace(own, repeat=1, generation=examples.failed(), verdict=examples.BROKEN)
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record_of("a"), own, broken])

    found = resumed(tmp_path, {"a": SCHEMA})

    assert (ids(found), found.left_out, found.broken) == (["a"], 0, 1)
    assert [answer.read() for answer in found.project_answers] == [own]


def test_parameters_added_by_the_engine_do_not_prevent_resuming(tmp_path: Path) -> None:
    before = replace(examples.metadata(), params={"max_tokens": 64, "temperature": None, "seed": None})
    journal.write(tmp_path / "records.jsonl", before, [record_of("a")])

    found = resumed(
        tmp_path, {"a": SCHEMA}, params={**before.params, "temperature": 0.0}, asked_params=dict(before.params)
    )

    assert ids(found) == ["a"]
    with pytest.raises(ResumeError, match=r"used temperature null, this run 0\.5"):
        resumed(tmp_path, {"a": SCHEMA}, asked_params={**before.params, "temperature": 0.5})


def resumed_variants(path: Path, now: RunMetadata) -> Resumption:
    templates = dict.fromkeys(["", "a", "b", "c"], schema_prompt)
    return resume(path, now, [key("x"), key("y")], load=_case, templates=templates)


def attempts(resumption: Resumption) -> list[tuple[str, str]]:
    return [(answer.key.id, answer.variant) for answer in resumption.answers]


def test_each_variant_reuses_its_answers_and_a_changed_one_starts_anew(tmp_path: Path) -> None:
    then = examples.variants(a={}, b={"model": "n"})
    journal.write(tmp_path / "records.jsonl", then, [record_of("x", variant="a"), record_of("x", variant="b")])

    found = resumed_variants(tmp_path, examples.variants(a={}, b={"model": "other"}, c={"model": "third"}))

    assert attempts(found) == [("x", "a")]
    assert (found.left_out, found.renamed) == (1, False)
    assert [one.replace(str(tmp_path), "RUN") for one in found.warnings] == [
        'variant b starts anew: RUN used model "n", this run "other"',
        "variant c starts anew: RUN has no variant with the same questions: a, b",
    ]


def test_run_without_variants_is_reused_for_the_equal_variant(tmp_path: Path) -> None:
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record_of("x")])

    found = resumed_variants(tmp_path, examples.variants(a={"model": "other"}, b={}))

    assert attempts(found) == [("x", "b")]
    assert [answer.read().variant for answer in found.answers] == ["b"]
    assert found.renamed


def test_resume_rejects_a_run_without_an_equal_variant(tmp_path: Path) -> None:
    journal.write(tmp_path / "records.jsonl", examples.variants(a={}, b={"model": "n"}), [record_of("x", variant="a")])

    with pytest.raises(ResumeError, match='model "m", this run "other"; none of its answers can be reused'):
        resumed_variants(tmp_path, examples.variants(a={"model": "other"}))
