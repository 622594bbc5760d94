from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_jsbench.core.errors import JournalError, JSBenchError, RecordError
from pytest_jsbench.formats import load_format_schema
from pytest_jsbench.metrics.comparison import compare
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.metrics import Metrics
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.records import Record
from pytest_jsbench.records.setting_differences import SettingDifference, settings_of
from pytest_jsbench.reports.baselines import against, baseline_to_dict, baseline_to_text, counterparts, kept_of_run
from pytest_jsbench.reports.run_json import load, migrate, parse, read, run_to_dict, with_cases, write_run
from pytest_jsbench.settings.option import Bearing
from pytest_jsbench.settings.options import OPTIONS
from pytest_jsbench.verdicts.verdicts import NOT_REWRITTEN
from tests.support import examples
from tests.support.examples import record, replace
from tests.support.public_data import OPENADAPT_EVALS

SCHEMA = load_format_schema("evaluation")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return the directory of a run of two cases."""
    made = examples.run(record("a"), record("b", verdict=examples.VIOLATED))
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    journal.write(folder / "records.jsonl", made.metadata, made.records)
    write_run(folder / "run.json", run_to_dict(made, summarize(made), config_path="pytest.ini"))
    return folder


@pytest.mark.parametrize("name", ["", "run.json", "records.jsonl", ".."])
def test_a_run_is_read_by_its_folder_or_either_of_its_files(run: Path, name: str) -> None:
    evaluation, outcomes = with_cases(run / name)

    assert (evaluation.backend, evaluation.model, evaluation.label) == ("scripted", "m", "m")
    assert {str(key): one.attempts for key, one in outcomes.items()} == {
        "simple::a": ("passed",),
        "simple::b": ("schema_violation",),
    }
    assert evaluation.figures["pass_rate"] == 0.5
    assert evaluation.figures["failure_rates.schema_violation"] == 0.5
    assert evaluation.figures["cost"] is None
    assert evaluation.interval("pass_rate") == pytest.approx((0.0126, 0.9874), abs=1e-4)
    assert evaluation.interval("failure_rates.schema_violation") == evaluation.interval("pass_rate")
    assert evaluation.interval("ttft_p50") is None


def test_the_whiskers_of_a_failure_rate_are_over_cases() -> None:
    made = [
        replace(record(name, verdict=examples.PASSED if name < "c" else examples.VIOLATED), repeat=number)
        for name in "abcd"
        for number in range(5)
    ]

    read_again = examples.evaluation(examples.run(*made))

    assert read_again.interval("failure_rates.schema_violation") == pytest.approx((0.0676, 0.9324), abs=1e-4)
    assert read_again.interval("failure_rates.schema_violation") == read_again.interval("pass_rate")


def test_a_run_of_an_older_version_is_read_from_its_records(run: Path) -> None:
    data = load(run / "run.json")
    del data["cases"]
    (run / "run.json").write_text(json.dumps(data))

    assert len(with_cases(run)[1]) == 2
    with pytest.raises(JSBenchError, match="has no outcomes of cases"):
        with_cases(run / "run.json")


def test_baseline_has_one_case_per_line_and_the_same_outcomes(run: Path, tmp_path: Path) -> None:
    evaluation, outcomes = with_cases(run)
    text = baseline_to_text(baseline_to_dict(evaluation, outcomes))
    (tmp_path / "base.json").write_text(text)

    again, ended = with_cases(tmp_path / "base.json")

    assert ended == outcomes
    assert (again.label, again.metrics["pass_rate"]) == ("m", 0.5)
    assert sum('"simple::' in line for line in text.splitlines()) == 2
    jsonschema.validate(json.loads(text), SCHEMA)
    assert json.loads(baseline_to_text(baseline_to_dict(evaluation, {})))["cases"] == {}


def test_a_legacy_file_of_bare_metrics_is_read_and_migrated() -> None:
    legacy = {"action_type_accuracy": 0.469, "click_hit_rate": None}

    evaluation = parse(legacy, source="old.json")
    migrated = migrate(legacy)

    assert (evaluation.backend, evaluation.config_path, evaluation.label) == ("unknown", "unknown", "old")
    assert evaluation.figures == legacy
    assert migrated == {"schema_version": "1.0", "config_path": "unknown", "backend": "unknown", "metrics": legacy}
    jsonschema.validate(migrated, SCHEMA)
    assert migrate(migrated) == migrated


def test_a_figure_that_another_project_has_retired_is_not_applicable() -> None:
    evaluation = parse({"metrics": {"num_steps": 3, "click_hit_rate": -1.0, "delta": -1}}, source="theirs.json")

    assert evaluation.figures == {"num_steps": 3, "click_hit_rate": None, "delta": -1}


def test_unknown_content_of_a_file_is_kept() -> None:
    data = {"metrics": {"x": 1, "x_ci": [0.5, 2]}, "dsl_mode": "som", "backend": "claude", "device": "cuda"}

    migrated = migrate(data)

    assert migrated.items() >= data.items()
    assert parse(migrated, source="s").interval("x") == (0.5, 2)


@pytest.mark.parametrize("path", sorted(OPENADAPT_EVALS.glob("*.json")) or [None], ids=str)
def test_files_of_another_project_are_read_and_conform(path: Path | None) -> None:
    if path is None:
        pytest.skip("shared/data/openadapt_evals is not there")
    evaluation = read(path)

    assert evaluation.figures["num_steps"] in {28, 224}
    assert evaluation.backend in {"qwen2_5", "qwen3"}
    jsonschema.validate(load(path), SCHEMA)
    jsonschema.validate(migrate(load(path)), SCHEMA)


def test_a_run_of_ours_is_an_evaluation(run: Path) -> None:
    jsonschema.validate(load(run / "run.json"), SCHEMA)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON: Expecting value"),
        ("[1]", "is not a JSON object"),
        ('{"a": NaN}', "not JSON: NaN is not JSON"),
        ('{"a": 1e999}', "beyond double precision"),
        ("[" * 100_000, "nested too deeply"),
        ('{"metrics": {"num_episodes": -3}}', "metrics.num_episodes is -3, which is less than the minimum of 0"),
        ('{"metrics": {"num_steps": "x"}}', "has no metrics"),
        ('{"metrics": {"num_steps": "x", "n": 1}}', 'num_steps is "x", which is not of types "null", "integer"'),
        ('{"metrics": {"action_type_accuracy": 7}}', "which is greater than the maximum of 1"),
        ('{"action_type_accuracy": 7}', "metrics.action_type_accuracy is 7, which is greater than the maximum of 1"),
        ('{"metrics": {"pass_rate": 1.5}}', "pass_rate is 1.5, which is greater than the maximum of 1"),
        ('{"metrics": {"pass_rate": 0.5, "tgt_mean": -1}}', "tgt_mean is -1, which is less than the minimum of 0"),
        ('{"metrics": {"pass_rate": 0.5, "planned": "many"}}', 'planned is "many"'),
        ('{"metrics": {"theirs": 1' + "0" * 400 + "}}", "metrics.theirs is 1000"),
        ('{"metrics": {"n": 1}, "backend": 5}', 'backend is 5, which is not of type "string"'),
        ('{"metrics": {"n": 1}, "cases": {"a::b": {"attempts": [["passed"]]}}}', "attempts[0] is an array"),
        ('{"metrics": {}}', "has no metrics"),
        ('{"metrics": [1]}', "has no metrics"),
        ('{"name": "x"}', "has no metrics"),
        ('{"metrics": {"n": 1}, "cases": {"a::b": {"attempts": ["won"]}}}', "unknown outcome of an attempt: 'won'"),
        ('{"metrics": {"n": 1}, "cases": {"a": {"attempts": ["passed"]}}}', "not a case: 'a'"),
    ],
)
def test_invalid_evaluation_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "e.json"
    path.write_text(content)

    with pytest.raises(JSBenchError, match=re.escape(message)) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_directory_of_several_runs_is_ambiguous(run: Path) -> None:
    (run.parent / "two").mkdir()
    (run.parent / "two" / "records.jsonl").touch()

    with pytest.raises(JSBenchError, match=r"a directory of 2 runs, the newest .*one: name one of them$"):
        read(run.parent)
    (run / "empty").mkdir()
    with pytest.raises(JSBenchError, match="expected a run's directory or a file"):
        read(run / "empty")


@pytest.mark.parametrize(
    "records",
    [
        (),
        (record(),),
        (
            record(schema={"type": "object"}),
            record("b", schema={"minimum": 0}, verdict=examples.VIOLATED),
            record("c", verdict=examples.EXCLUDED),
            record("d", verdict=examples.DISPUTED),
        ),
        (record(verdict=examples.BROKEN, generation=examples.failed()),),
    ],
)
def test_it_conforms_to_the_published_schema_and_is_read_as_seed_004_says(
    tmp_path: Path, records: tuple[Record, ...]
) -> None:
    run = examples.run(*records)
    summary = summarize(run)
    gate = check(Gate.parse("pass_rate>=0.5"), summary)
    differing = SettingDifference(name="compare.total", bears_on=Bearing.VALUES, values=("exact", None))
    comparisons = {"": compare(summary.outcomes, summary.outcomes, [differing])}

    written = run_to_dict(
        run, summary, config_path="pytest.ini", gates=[gate], comparisons=comparisons, baseline="base.json"
    )
    write_run(tmp_path / "run.json", written)

    data = json.loads((tmp_path / "run.json").read_text())
    jsonschema.validate(data, load_format_schema("run"))
    assert data.get("metrics", data)["planned"] == summary.total.planned
    assert (data["config_path"], data["backend"]) == ("pytest.ini", "scripted")
    assert data["gates"] == [{"gate": "pass_rate>=0.5", "met": gate.met, "message": gate.message}]
    assert list(data["cases"]) == [str(key) for key in summary.outcomes]
    assert data["keywords"].keys() == summary.keywords.keys()
    assert data["disputed"] == [str(one.key) for one in records if one.verdict.disputed]


def test_every_metric_it_writes_is_in_the_published_schema() -> None:
    described = load_format_schema("run")["$defs"]["metrics"]["properties"]
    written = summarize(examples.run(record())).total.to_dict().keys()
    conditional = tuple(name for name, row in Metrics.computed.items() if row.only_if is not None)

    assert written <= described.keys()
    assert [name for name in described.keys() - written if not name.startswith(conditional)] == []


def test_a_run_of_variants_is_written_and_read_as_its_variants(tmp_path: Path) -> None:
    run = examples.compared(a="pv", b="pp")
    summary = summarize(run)

    write_run(tmp_path / "run.json", run_to_dict(run, summary, config_path="pytest.ini"))

    data = json.loads((tmp_path / "run.json").read_text())
    jsonschema.validate(data, load_format_schema("run"))
    assert list(data["variants"]) == ["b", "a"]
    assert (data["backend"], data["run"]["model"]) == ("scripted", "2 models")
    assert [(one["first"], one["second"], one["real"]) for one in data["comparisons"]] == [("a", "b", False)]
    assert data["differing"] == ["simple::case01"]
    evaluation = read(tmp_path / "run.json")
    assert list(evaluation.variants) == ["a", "b"]
    assert evaluation.variants["a"].outcomes == summary.variants["a"].outcomes
    assert [one.run["model"] for one in evaluation.variants.values()] == ["model a", "model b"]
    assert [one.label for one in evaluation.variants.values()] == ["a", "b"]


def test_baseline_of_variants_has_the_cases_of_each(tmp_path: Path) -> None:
    run = examples.compared(a="pv", b="pp")
    journal.write(tmp_path / "records.jsonl", run.metadata, run.records)
    text = baseline_to_text(baseline_to_dict(*with_cases(tmp_path)))
    (tmp_path / "base.json").write_text(text)

    kept, cases = with_cases(tmp_path / "base.json")

    assert text.count('"simple::case00": {') == 2
    assert [key.id for key in cases] == ["case00", "case01"]
    compared = against(kept, run.metadata, summarize(run))
    assert compared.keys() == {"a", "b"}
    assert {one.sentence for one in compared.values()} == {"the same verdict on each of 2 cases"}
    assert not any(one.settings for one in compared.values())


def test_baseline_is_written_with_a_setting_that_looks_like_its_cases(run: Path) -> None:
    evaluation, outcomes = with_cases(run)
    evaluation = replace(evaluation, run={**evaluation.run, "details": {"cases": {}}})

    data = baseline_to_dict(evaluation, outcomes)

    assert json.loads(baseline_to_text(data)) == json.loads(json.dumps(data))


def test_baseline_has_every_setting_that_is_compared() -> None:
    paths = [path for option in OPTIONS for path in option.recorded if option.affects is not None]
    values: dict[str, Any] = {}
    for group, _, member in (path.rpartition(".") for path in paths):
        (values.setdefault(group, {}) if group else values)[member] = "x"
    evaluation = replace(examples.evaluation(examples.run(record())), run=values)

    assert settings_of(kept_of_run(evaluation)) == settings_of(evaluation.run)
    assert {"rate", "plain_share"} <= settings_of(evaluation.run).keys()


def test_case_that_cannot_be_rewritten_has_not_vanished_from_the_rewritten_variant() -> None:
    left_out = replace(examples.EXCLUDED, reason=NOT_REWRITTEN)
    metadata = examples.variants(whole={}, inline={"rewrite": "inline"})
    records = [
        replace(record("kept"), variant="whole"),
        replace(record("kept"), variant="inline"),
        replace(record("plain"), variant="whole"),
        replace(record("plain", verdict=left_out), variant="inline"),
    ]
    run = examples.run_of_variants(metadata, *records)
    baseline = examples.evaluation(examples.run(*map(record, ("kept", "plain", "gone"))))

    compared = against(baseline, run.metadata, summarize(run))

    assert {name: one.ratchet and [key.id for key in one.ratchet.vanished] for name, one in compared.items()} == {
        "whole": ["gone"],
        "inline": ["gone"],
    }


def test_case_that_no_variant_can_rewrite_has_not_vanished() -> None:
    left_out = replace(examples.EXCLUDED, reason=NOT_REWRITTEN)
    records = [record("kept"), record("plain", verdict=left_out)]
    alone = examples.run(*records, rewrite="inline")
    metadata = examples.variants(a={"rewrite": "inline"}, b={"rewrite": "inline"})
    both = examples.run_of_variants(metadata, *(replace(each, variant=name) for name in "ab" for each in records))
    baseline = examples.evaluation(examples.run(*map(record, ("kept", "plain", "gone"))))

    vanished = [
        [[key.id for key in one.ratchet.vanished] if one.ratchet else None for one in compared.values()]
        for compared in (against(baseline, run.metadata, summarize(run)) for run in (alone, both))
    ]

    assert vanished == [[["gone"]], [["gone"], ["gone"]]]


def test_case_that_a_rewritten_variant_has_no_record_of_has_vanished_from_it() -> None:
    metadata = examples.variants(whole={}, inline={"rewrite": "inline"})
    records = [replace(record("kept"), variant=name) for name in ("whole", "inline")]
    run = examples.run_of_variants(metadata, *records, replace(record("gone"), variant="whole"))
    baseline = examples.evaluation(examples.run(*map(record, ("kept", "gone"))))

    compared = against(baseline, run.metadata, summarize(run))

    assert {name: one.ratchet and len(one.ratchet.vanished) for name, one in compared.items()} == {
        "whole": 0,
        "inline": 1,
    }


def test_case_of_another_variant_has_vanished_from_a_variant_that_is_not_rewritten() -> None:
    run = examples.compared(a="p", b="pp")
    baseline = examples.evaluation(examples.compared(a="pp", b="pp"))

    compared = against(baseline, run.metadata, summarize(run))

    assert {name: one.ratchet and len(one.ratchet.vanished) for name, one in compared.items()} == {"a": 1, "b": 0}


def test_baseline_without_variants_applies_to_each_variant(tmp_path: Path) -> None:
    run = examples.compared(a="pv", b="pp")
    before = run.of_variant("a")
    journal.write(tmp_path / "records.jsonl", replace(before.metadata, variant=""), before.records)

    compared = against(read(tmp_path), run.metadata, summarize(run))

    assert [(name, len(one.newly_passing)) for name, one in compared.items()] == [("b", 1), ("a", 0)]


@pytest.mark.parametrize(
    ("names", "message"), [([], "this run has no variants"), (["x"], "expected a variant of this run: x")]
)
def test_baseline_of_other_variants_is_rejected(tmp_path: Path, names: list[str], message: str) -> None:
    run = examples.compared(a="p", b="p")
    journal.write(tmp_path / "records.jsonl", run.metadata, run.records)

    with pytest.raises(RecordError, match=message):
        counterparts(read(tmp_path), names)


@pytest.mark.parametrize("name", ["model", "mödel", "\ud800"])
def test_file_is_json_with_an_indentation_of_two(tmp_path: Path, name: str) -> None:
    data = {"run": {"model": name, "none": {}}, "cases": {"a": [], "b": [1e-7, 1e16, None, True, {"n": 10**20}]}}

    write_run(tmp_path / "run.json", data)

    assert (tmp_path / "run.json").read_text() == json.dumps(data, indent=2) + "\n"


def test_number_that_json_lacks_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="JSON compliant"):
        write_run(tmp_path / "run.json", {"rate": float("nan")})
