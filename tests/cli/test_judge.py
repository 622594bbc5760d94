from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.core.cases import CaseKey, Expected
from pytest_jsbench.records import journal
from pytest_jsbench.records.records import Attempt
from pytest_jsbench.records.rejudging import compare_values
from pytest_jsbench.records.setting_differences import differences
from pytest_jsbench.reports import run_json
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.settings.options import OPTIONS
from pytest_jsbench.values.comparers import read_comparer
from pytest_jsbench.verdicts import JUDGE_VERSION, FailureType, JudgePolicy, Verdict
from tests.support import examples
from tests.support.commands import failed, ran, shown
from tests.support.examples import record, replace

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}


def judged(path: Path, *options: str) -> tuple[int, str]:
    return ran("judge", path, *options)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Write four lines of schema and text: passed, violated, passed with a duplicate key, truncated."""
    lines: list[dict[str, object]] = [
        {"schema": SCHEMA, "text": '{"n": 1}', "id": "good"},
        {"schema": SCHEMA, "text": '{"n": -1}', "id": "low\x1b[31m"},
        {"schema": SCHEMA, "text": '{"n": 1, "n": 2}'},
        {"schema": True, "text": '{"n": ', "truncated": True},
    ]
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    return path


def test_judge_lists_lines_that_fail_or_all_with_verbose(plain: Path) -> None:
    status, shown = judged(plain)

    assert "good: passed\n" in judged(plain, "-v")[1]
    assert status == 1
    assert shown.splitlines() == [
        "low\\x1b[31m: schema_violation: $.n: -1 is less than the minimum of 0",
        "line 4: truncated (incomplete): stopped at the token limit: Expecting value (line 1, column 6)",
        "passed 2 of 4",
    ]


def test_the_policy_can_be_given(plain: Path) -> None:
    status, shown = judged(plain, "--duplicate-keys=fail")

    assert status == 1
    assert "line 3: syntax_error (duplicate_keys): an object with the same key twice" in shown


def test_json_is_one_verdict_per_line_and_nothing_else(plain: Path) -> None:
    verdicts = [json.loads(line) for line in judged(plain, "--json")[1].splitlines()]

    assert [(one["id"], one["passed"], one["failure_type"]) for one in verdicts] == [
        ("good", True, None),
        ("low\x1b[31m", False, "schema_violation"),
        ("line 3", True, None),
        ("line 4", False, "truncated"),
    ]
    assert verdicts[1]["violations"][0]["keyword"] == "minimum"
    assert verdicts[2]["notes"] == ["duplicate_keys"]


def test_lines_that_all_pass_are_status_zero(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"schema": true, "text": "1"}')

    assert judged(path) == (0, "passed 1 of 1\n")


def test_recorded_answers_have_their_policy_and_it_can_be_changed(tmp_path: Path) -> None:
    text = '```json\n{"n": 1}\n```'
    journal.write(
        tmp_path / "records.jsonl",
        examples.metadata(policy={"fences": "forbid", "ignored_fields": ["x"], "not_known": 1}),
        [record("a", schema=SCHEMA, generation=examples.completion(text))],
    )

    assert "was passed, now syntax_error" in judged(tmp_path)[1]
    assert judged(tmp_path, "--fences=strip")[0] == 0
    (line,) = judged(tmp_path, "--json", "--fences=strip")[1].splitlines()
    assert (json.loads(line)["task"], json.loads(line)["notes"]) == ("simple", ["fenced"])


def test_verbose_shows_the_breakdown_of_recorded_answers(tmp_path: Path) -> None:
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record("a", schema=SCHEMA)])

    assert "Keyword" in judged(tmp_path, "-v")[1]
    assert "Keyword" not in judged(tmp_path)[1]
    journal.write(tmp_path / "records.jsonl", examples.metadata(), [record("a", schema=True)])
    assert "Keyword" not in judged(tmp_path, "-v")[1]


def test_recorded_answers_are_judged_again_and_changes_are_named(tmp_path: Path) -> None:
    wrong = Verdict(failure_type=FailureType.SYNTAX_ERROR, valid=None)
    attempts = [record("a", schema=SCHEMA), replace(record("b", schema=SCHEMA, verdict=wrong), repeat=1)]
    journal.write(tmp_path / "records.jsonl", examples.metadata(), attempts)

    status, shown = judged(tmp_path)

    assert status == 0
    assert "simple::b[2]: was syntax_error, now passed" in shown
    assert "simple::a" not in shown
    assert "pass rate  2/2 = 1.000" in shown
    lines = [json.loads(line) for line in judged(tmp_path, "--json")[1].splitlines()]
    assert [(line["id"], line["repeat"]) for line in lines] == [("a", 0), ("b", 1)]


def test_attempt_never_made_is_still_missing_when_judged_again(tmp_path: Path) -> None:
    metadata = examples.metadata().with_plan(Attempt(CaseKey(task="simple", id=name), 0) for name in ("a", "b"))
    journal.write(tmp_path / "records.jsonl", metadata, [record("a", schema=SCHEMA)])

    status, shown = judged(tmp_path)

    assert status == 1
    assert "pass rate  1/2 = 0.500" in shown


def test_killed_run_is_judged_again_from_the_records_of_workers(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").touch()
    for worker, case in (("gw0", "a"), ("gw1", "b")):
        journal.write(tmp_path / f"records.{worker}.jsonl", examples.metadata(), [record(case, schema=SCHEMA)])

    status, shown = judged(tmp_path)

    assert status == 0
    assert "pass rate  2/2 = 1.000" in shown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("", "is empty"),
        ('{"type": "run"}\n{}\n', "not a"),
        ('{"type": "record"}', 'expected {"schema": an object or a boolean, "text": a string}, found the fields type'),
        ('{"schema": "{oops", "text": "1"}', "records.jsonl:1: expected"),
        ('{"schema": {}, "text": "1"}\nnonsense', "records.jsonl:2: not JSON"),
        ("[" * 100_000, "records.jsonl:1: not a JSON object"),
    ],
)
def test_what_is_no_records_file_is_one_line_and_status_two(
    tmp_path: Path, content: str | None, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.jsonl"
    if content is not None:
        path.write_text(content)

    error = failed(capsys, "judge", path)
    assert message in error or "records.jsonl:1" in error


@pytest.mark.parametrize("seconds", ["0", "soon", "inf"])
def test_invalid_bound_is_rejected(plain: Path, seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["judge", str(plain), f"--timeout={seconds}"])

    assert caught.value.code == 2
    assert f"expected seconds above 0, found '{seconds}'" in capsys.readouterr().err


def test_a_run_is_exported_in_a_format_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jsbench_own_format.py").write_text(
        "def count(path, run, summary):\n    path.write_text(f'{len(run.records)} {summary.total.passed}')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = examples.run(record("a"), record("b", verdict=examples.VIOLATED))
    journal.write(tmp_path / "records.jsonl", found.metadata, found.records)
    command = ["export", str(tmp_path), "--format=jsbench_own_format:count", "-o", str(tmp_path / "count.txt")]

    assert main(command, out=io.StringIO()) == 0
    assert (tmp_path / "count.txt").read_text() == "2 1"
    assert main([*command, "--developer=me"], out=io.StringIO()) == 2
    assert "--developer applies only to --format=every_eval_ever, found --format=jsbench_own" in capsys.readouterr().err


def test_what_passes_when_judged_again_has_no_code_any_more(tmp_path: Path) -> None:
    generation = examples.completion('{"n": 1, "color": "red"}')
    schema = {"type": "object", "properties": {"n": {}}}
    invented = record("a", verdict=examples.HALLUCINATED, generation=generation, schema=schema)
    found = examples.run(replace(invented, codes=("colorful",)))
    journal.write(tmp_path / "records.jsonl", found.metadata, found.records)

    assert "codes      colorful 1" in judged(tmp_path)[1]
    assert "codes" not in judged(tmp_path, "--extra-fields=allow")[1]


def test_the_judges_options_take_the_values_that_the_policy_has() -> None:
    choices = {**JudgePolicy.choices(), "default_dialect": tuple(NAMES)}
    declared = {option.name: option.choices for option in OPTIONS}

    assert declared["extra_fields"] == ()  # It also accepts names.
    assert {name: declared[name] for name in choices} == {**choices, "extra_fields": ()}


def kept_run(folder: Path, **policy: object) -> Path:
    """Write a run whose answer passes if formats are ignored, and fails if they are asserted."""
    schema = {"type": "string", "format": "email"}
    made = record("a", schema=schema, generation=examples.completion('"nobody"'))
    metadata = examples.metadata(policy=policy, versions={"judge": "1"}, uuid="12345678-1234-4234-8234-123456789012")
    folder.mkdir()
    journal.write(folder / "records.jsonl", metadata.with_plan([Attempt(made.key, 0)]), [made])
    return folder


def test_a_run_that_is_judged_again_is_written_and_can_be_compared(tmp_path: Path) -> None:
    path = kept_run(tmp_path / "run")

    status, said = judged(path, "--formats=assert", f"--output={tmp_path / 'strict'}")
    lenient, _ = judged(path, "--formats=ignore", f"--output={tmp_path / 'lenient'}")

    assert (status, lenient) == (1, 0)
    assert said.splitlines()[-1] == f"written    {tmp_path / 'strict'}"
    strict, other = (run_json.read(tmp_path / name) for name in ("strict", "lenient"))
    assert (strict.figures["pass_rate"], other.figures["pass_rate"]) == (0, 1)
    assert [one.name for one in differences([strict.settings, other.settings])] == ["judge.formats"]
    assert strict.run["versions"]["judge"] == JUDGE_VERSION
    assert len({one.run["uuid"] for one in (strict, other, run_json.read(path))}) == 3
    assert journal.read_run(tmp_path / "strict").outcomes[0].failure_type is FailureType.SCHEMA_VIOLATION
    assert journal.read_run(path).outcomes[0].passed
    again = tmp_path / "again"
    judged(tmp_path / "lenient", "--formats=assert", f"--output={again}")
    assert differences([run_json.read(again).settings, strict.settings]) == ()


def test_a_run_is_never_written_over_itself(tmp_path: Path, plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kept_run(tmp_path / "run")
    before = (path / "records.jsonl").read_bytes()

    assert judged(path / "records.jsonl", f"--output={path}")[0] == 2

    assert (
        "contains the run 20261121T100000Z-scripted-m, which must not be replaced: choose another directory"
        in capsys.readouterr().err
    )
    assert (path / "records.jsonl").read_bytes() == before
    shutil.copytree(path, tmp_path / "copy")
    assert judged(path, f"--output={tmp_path / 'copy'}")[0] == 2
    assert (tmp_path / "copy" / "records.jsonl").read_bytes() == before
    assert [judged(path, f"--output={tmp_path / 'out'}", *more)[0] for more in ([], ["--formats=ignore"])] == [1, 0]
    assert judged(plain, f"--output={tmp_path / 'x'}")[0] == 2
    assert "--output applies only to a run" in capsys.readouterr().err


def test_a_run_of_variants_is_judged_again_as_each_of_them(tmp_path: Path) -> None:
    run = examples.compared(a="v", b="p")
    journal.write(tmp_path / "records.jsonl", run.metadata, run.records)

    lines = [json.loads(line) for line in shown("judge", tmp_path, "--json").splitlines()]

    assert [(one["variant"], one["failure_type"]) for one in lines] == [("a", None), ("b", None)]
    text = shown("judge", tmp_path)
    assert "simple::case00[a]: was schema_violation, now passed" in text
    assert "b against a: the same verdict on each of 1 case" in text


INVOICE = {"total": 99.5, "vendor": "ACME"}


def compared(folder: Path, *said: str, **named: str) -> Path:
    """Write a run with one answer and these comparers; `named` overrides comparers in the header."""
    comparers = dict(map(read_comparer, said))
    answer = examples.completion('{"total": 99.501, "vendor": "acme"}')
    verdict = replace(examples.PASSED, instance={"total": 99.501, "vendor": "acme"})
    one = compare_values(record("a", verdict=verdict, generation=answer), Expected(value=INVOICE), comparers)
    header = {name: one.how for name, one in comparers.items()} | named
    folder.mkdir()
    list(journal.write(folder / "records.jsonl", examples.metadata(comparers=header), [one]))
    return folder


def test_values_are_compared_as_in_the_run_or_as_specified_now(tmp_path: Path) -> None:
    run = compared(tmp_path / "run", "total=tolerance:0.01", "vendor=casefold")

    assert "values     2/2" in judged(run)[1]
    again = judged(run, "--comparer=total=tolerance:0.0001", "-o", str(tmp_path / "again"))[1]

    assert "values     1/2" in again
    run_settings = run_json.read(tmp_path / "again").run
    assert run_settings["comparers"] == {"total": "tolerance:0.0001", "vendor": "casefold"}


def test_function_named_by_a_run_is_not_loaded_but_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "strange.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "own.py").write_text("def same(expected, found):\n    return expected.lower() == found\n")
    monkeypatch.syspath_prepend(tmp_path)
    run = compared(tmp_path / "run", "vendor=function:own:same", total="function:strange:same")

    for options in ([], ["--comparer=total=tolerance:0.01"]):
        lines = judged(run, *options)[1].splitlines()
        assert lines[0].startswith(
            "warning: values were not compared again, since the run's comparison functions are not loaded: "
            "add --comparer '"
        )
        assert any(line.startswith("values     1/2") for line in lines)
    assert "add --comparer 'vendor=function:own:same'" in lines[0]
    whole = judged(run, "--comparer=total=tolerance:0.01", "--comparer=vendor=function:own:same")[1]
    assert "warning" not in whole
    assert "values     2/2" in whole


def test_a_run_whose_comparer_is_none_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plain: Path
) -> None:
    run = compared(tmp_path / "run", total="near")

    assert judged(run)[0] == 2
    assert "the run's comparer for total: expected tolerance:NUMBER" in capsys.readouterr().err
    assert judged(plain, "--comparer=total=casefold")[0] == 2
    assert "--comparer applies only to a run" in capsys.readouterr().err


def test_judge_reads_a_schema_that_is_json_text(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    lines = [{"id": "a", "schema": '{"type": "null"}', "text": "null"}, {"id": "b", "schema": "false", "text": "1"}]
    path.write_text("\n".join(map(json.dumps, lines)))
    out = io.StringIO()

    assert main(["judge", str(path)], out=out) == 1
    assert "b: schema_violation" in out.getvalue()
    assert "passed 1 of 2" in out.getvalue()
