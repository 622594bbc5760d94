"""Tests of `jsbench reduce` with scripted engines that have one fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.library.evaluation import evaluate
from pytest_jsbench.library.run import EvaluatedRun
from pytest_jsbench.records import journal
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.reduction import ReductionOptions, reduce_target
from pytest_jsbench.run.reduction.target import build_variant, find_target, policy_flags
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.verdicts import JudgePolicy
from tests.support.commands import failed, ran
from tests.support.planted_faults import LooseGrammars

ORDER: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Acme order",
    "type": "object",
    "properties": {
        "acmeId": {"type": "string", "pattern": "^[a-z]*$", "description": "Id at Acme"},
        "customer": {
            "type": "object",
            "properties": {
                "address": {
                    "type": "object",
                    "properties": {"street": {"type": "string", "minLength": 7}, "zip": {"type": "string"}},
                    "required": ["street"],
                },
                "phone": {"type": "string"},
            },
            "required": ["address"],
        },
        "amount": {"type": "integer"},
    },
    "required": ["acmeId", "customer", "amount"],
}
PRIVATE = ("acme", "Acme", "customer", "address", "street", "zip", "phone", "amount")


def run_of(folder: Path, fault: str, schema: dict[str, Any], **options: Any) -> Path:
    """Evaluate a schema with a scripted fault, and return the run's directory."""
    source = folder / "cases"
    source.mkdir()
    (source / "order.json").write_text(json.dumps(schema))
    answers = f"tests.support.planted_faults:{fault}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parents[2])
        run = evaluate(
            "scripted", str(source), engine_option={"answers": answers}, output=folder / "runs", retries=0, **options
        )
    assert run.folder is not None
    return run.folder


def reduce_order(folder: Path, fault: str, *more: str, status: int = 0) -> dict[str, Any]:
    answers = f"--engine-option=answers=tests.support.planted_faults:{fault}"
    found, text = ran("reduce", folder, "order", answers, "--json", *more)
    assert found == status
    result: dict[str, Any] = json.loads(text)
    return result


def test_ignored_keyword_is_found_at_the_smallest_depth_and_without_names(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "ignore_min_length_below_depth_3", ORDER)

    result = reduce_order(folder, "ignore_min_length_below_depth_3", "--concurrency=3")

    assert result["keyword"] == "minLength"
    assert result["shareable"]
    assert result["stopped"] == ""
    inner = result["schema"]
    for _ in range(3):
        (inner,) = inner["properties"].values()
    assert inner == {"minLength": 1}
    assert result["bytes_after"] < result["bytes_before"] / 3
    issue = (folder / "reduced" / "cases" / "order" / "issue.md").read_text("utf-8")
    shared = issue + json.dumps(result)
    assert [name for name in PRIVATE if name in shared.replace(result["case"], "")] == []
    assert "--jsbench-dataset=reduced.json" in issue


def test_interrupted_reduction_makes_no_call_twice(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "ignore_min_length_below_depth_3", ORDER)
    fault = "ignore_min_length_below_depth_3"

    first = reduce_order(folder, fault, "--max-calls=30", "--concurrency=1", status=1)
    second = reduce_order(folder, fault, "--concurrency=1")
    third = reduce_order(folder, fault, "--concurrency=1")

    assert first["stopped"] == "the maximum number of calls is reached (--max-calls)"
    assert first["calls"] <= 30
    assert first["bytes_after"] < first["bytes_before"]
    assert second["calls"] > 0
    assert third["calls"] == 0
    assert third["schema"] == second["schema"]
    records = journal.read_run(folder / "reduced" / "cases" / "order").outcomes
    assert len({outcome.attempt for outcome in records}) == len(records) == first["calls"] + second["calls"]


def test_ended_reduction_warns_of_own_names_and_is_continued_by_the_same_command(tmp_path: Path) -> None:
    fault = "ignore_min_length_below_depth_3"
    folder = run_of(tmp_path, fault, ORDER)
    answers = f"--engine-option=answers=tests.support.planted_faults:{fault}"

    status, text = ran("reduce", folder, "order", answers, "--max-calls=6")

    assert status == 1
    assert "stopped  the maximum number of calls is reached (--max-calls)" in text
    assert "warning  this schema has your own names: the reduction ended before a neutral form was shown" in text


def test_case_that_fails_by_chance_is_reduced_by_a_sequential_test(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "sometimes_forget_required", ORDER)

    result = reduce_order(folder, "sometimes_forget_required", "--concurrency=1", status=1)

    assert result["baseline"]["others"] > 0
    assert not result["shareable"]
    assert "amount" in json.dumps(result["schema"])
    assert result["evidence"]["failures"] > 1


def test_refusal_keeps_its_reason(tmp_path: Path) -> None:
    schema = {**ORDER, "dependentRequired": {"acmeId": ["amount"]}}
    folder = run_of(tmp_path, "refuse_dependent_required", schema)

    result = reduce_order(folder, "refuse_dependent_required")

    assert result["failure_type"] == "unsupported_schema"
    assert list(result["schema"]) == ["$schema", "dependentRequired"]
    assert "acmeId" not in result["message"]


def test_death_of_a_server_is_checked_after_each_failure(tmp_path: Path) -> None:
    schema = {**ORDER, "properties": {**ORDER["properties"], "pair": {"prefixItems": [{"type": "string"}, {}]}}}
    folder = run_of(tmp_path, "die_of_tuples", schema)

    result = reduce_order(folder, "die_of_tuples")

    (tuple_schema,) = result["schema"].get("properties", {"": result["schema"]}).values()
    assert list(tuple_schema)[-1] == "prefixItems"
    records = list(journal.read_run(folder / "reduced" / "cases" / "order").run(folder).records)
    controls = [record for record in records if record.id == "control"]
    failures = [record for record in records if record.verdict.failure_type == "api_error"]
    assert len(controls) == len(failures) > 0


def test_request_that_breaks_the_server_is_reduced_in_the_same_way(tmp_path: Path) -> None:
    schema = {**ORDER, "properties": {**ORDER["properties"], "pair": {"prefixItems": [{"type": "string"}, {}]}}}
    folder = run_of(tmp_path, "die_of_tuples", schema, isolate_crashes=True)

    result = reduce_order(folder, "die_of_tuples")

    assert (result["failure_type"], result["reason"]) == ("api_error", "crash")
    assert result["evidence"]["others"] == 0
    assert result["schema"] == {"$schema": ORDER["$schema"], "prefixItems": [{}]}


def test_adaptation_needs_no_engine(tmp_path: Path) -> None:
    schema = {
        **ORDER,
        "properties": {**ORDER["properties"], "tags": {"type": "array", "uniqueItems": True, "minItems": 2}},
    }
    folder = run_of(tmp_path, "never_fail", schema, adapt="narrow:openai")

    status, text = ran("reduce", folder, "cases::order")

    assert status == 0
    assert '"uniqueItems": true' in text
    assert "tags" not in text
    assert "0 calls" in text
    again = next(line.split(None, 1)[1] for line in text.splitlines() if line.startswith("again"))
    status, shown = ran(*again.split()[1:])
    assert status == 1
    assert "uniqueItems" in shown


@pytest.fixture
def labelled_run(tmp_path: Path) -> EvaluatedRun:
    """Evaluate a grammar that ignores `maximum` and refuses `not`."""
    labels = tmp_path / "labels"
    labels.mkdir()
    limit = {"properties": {"amount": {"type": "integer", "maximum": 1000}, "acmeId": {"type": "string"}}}
    schemas = {"limit": {**ORDER, **limit, "required": ["amount"]}, "negated": {**ORDER, "not": {"required": ["zip"]}}}
    lines = [{"schema_id": name, "task": "easy", "schema": schema} for name, schema in schemas.items()]
    data = {"amount": 5000, "acmeId": "x", "customer": {"phone": "7"}}
    answers = [{"id": f"{name}#0", "schema_id": name, "valid": False, "data": data} for name in schemas]
    for name, rows in (("schemas", lines), ("instances", answers)):
        (labels / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return evaluate(LooseGrammars(), instances=str(labels), output=tmp_path / "runs")


def test_wrong_decision_is_reduced_with_its_answer(labelled_run: EvaluatedRun, tmp_path: Path) -> None:
    reduction = labelled_run.reduce("easy::limit", engine=LooseGrammars(), output=tmp_path / "reduced")

    form = reduction.shareable
    assert form is not None
    assert form.answer is not None
    assert form.schema == {"$schema": ORDER["$schema"], "maximum": 0}
    assert form.answer.value == 1
    assert [name for name in PRIVATE if name in (tmp_path / "reduced" / "issue.md").read_text("utf-8")] == []
    again = evaluate(LooseGrammars(), instances=str(tmp_path / "reduced" / "labelled"))
    assert [outcome.failure_type for outcome in again.outcomes] == ["wrong_decision"]


def test_refusal_of_a_grammar_quotes_another_schema_and_is_the_same(labelled_run: EvaluatedRun) -> None:
    reduction = labelled_run.reduce("easy::negated", engine=LooseGrammars())

    assert reduction.failure.failure_type == "unsupported_schema"
    assert reduction.smallest.schema == {"$schema": ORDER["$schema"], "not": {}}
    assert reduction.evidence.others == 0


def test_case_that_no_longer_fails_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_of(tmp_path, "ignore_min_length_below_depth_3", ORDER)
    answers = "--engine-option=answers=tests.support.planted_faults:never_fail"

    error = failed(capsys, "reduce", folder, "order", answers)

    assert "cases::order did not fail again in the same way (schema_violation (minLength)): 10 answers" in error


@pytest.mark.parametrize(
    ("case", "words"), [("other", "no case 'other' in the run"), ("order", "cases::order passed; expected a case")]
)
def test_case_that_cannot_be_reduced_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, words: str
) -> None:
    folder = run_of(tmp_path, "never_fail", ORDER)

    assert words in failed(capsys, "reduce", folder, case)


def test_directory_of_another_reduction_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = "ignore_min_length_below_depth_3"
    folder = run_of(tmp_path, fault, ORDER)
    reduce_order(folder, fault, "--max-calls=20", status=1)
    answers = f"--engine-option=answers=tests.support.planted_faults:{fault}"

    error = failed(capsys, "reduce", folder, "order", answers, "--max-tokens=7")

    assert "has calls with other settings: max_tokens" in error


def test_replayed_answers_cannot_be_asked_about_new_schemas(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "ignore_min_length_below_depth_3", ORDER)

    target = find_target(journal.read_run(folder).run(folder), "order")

    with pytest.raises(JSBenchError, match="recorded answers only"):
        build_variant(target, {"engine": "replay"})


@pytest.mark.parametrize("reads_messages", [False, True])
def test_own_messages_are_replaced_if_the_failure_does_not_need_them(tmp_path: Path, reads_messages: bool) -> None:
    fault = "ignore_min_length_if_asked" if reads_messages else "ignore_min_length_below_depth_3"
    text = f"The order of Acme must be vague. Schema: {json.dumps(ORDER)}"
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        json.dumps({"id": "order", "schema": ORDER, "messages": [{"role": "user", "content": text}]}) + "\n"
    )
    answers = {"answers": f"tests.support.planted_faults:{fault}"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(Path(__file__).parents[2])
        run = evaluate("scripted", str(rows), engine_option=answers, output=tmp_path / "runs")
        reduction = run.reduce("order", engine_option=answers, concurrency=1, output=tmp_path / "reduced")

    records = journal.read_run(tmp_path / "reduced").run(tmp_path).records
    assert reduction.smallest.is_prompt_default is not reads_messages
    assert (reduction.shareable is None) is reads_messages
    assert reduction.needs_messages is reads_messages
    last = next(record for record in reversed(list(records)) if record.schema == reduction.smallest.schema)
    assert last.written_prompt is not None
    assert json.dumps(ORDER) not in str(last.written_prompt.messages)
    assert (tmp_path / "reduced" / ("private.json" if reads_messages else "issue.md")).exists()


def test_result_that_new_answers_do_not_confirm_is_not_kept(tmp_path: Path) -> None:
    folder = run_of(tmp_path, "fail_twice_without_title", {"title": "T", "type": "object", "minProperties": 0})

    result = reduce_order(folder, "fail_twice_without_title", "--concurrency=1")

    assert result["schema"]["title"] == "text"
    assert "type" in result["schema"]
    assert result["evidence"] == {"failures": 3, "others": 0}


def test_interrupted_reduction_returns_what_was_found(tmp_path: Path) -> None:
    fault = "ignore_min_length_below_depth_3"
    folder = run_of(tmp_path, fault, ORDER)
    target = find_target(journal.read_run(folder).run(folder), "order")
    options = ReductionOptions(
        engine={"engine_option": [("answers", f"tests.support.planted_faults:{fault}")]}, concurrency=1
    )
    found: list[Candidate] = []

    def interrupt(candidate: Candidate, _: int) -> None:
        found.append(candidate)
        raise KeyboardInterrupt

    reduction = reduce_target(target, options, accepted=interrupt)

    assert reduction.stopped == "interrupted"
    assert [reduction.smallest] == found
    assert reduction.smallest.size < reduction.original.size
    assert reduction.shareable is None


def test_line_that_reproduces_has_the_policy_of_the_run() -> None:
    policy = JudgePolicy(extra_fields="allow", ignored_fields=("acme",), default_dialect=NAMES["draft-07"])

    assert policy_flags(policy) == ("--jsbench-extra-fields=allow", "--jsbench-default-dialect=draft-07")
    assert policy_flags(JudgePolicy()) == ()


def test_result_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = "ignore_min_length_below_depth_3"
    folder = run_of(tmp_path, fault, ORDER)
    output = tmp_path / "reduced"
    (output / "issue.md").mkdir(parents=True)

    answers = f"--engine-option=answers=tests.support.planted_faults:{fault}"
    error = failed(capsys, "reduce", folder, "order", answers, "--max-calls=5", "-o", output)

    assert f"cannot write to {output}: Is a directory; choose a writable directory with --output" in error
