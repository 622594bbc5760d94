from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.cli.merge import merge_runs
from pytest_jsbench.cli.output import Output
from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.core.errors import GateError, JSBenchError, MergeError
from pytest_jsbench.core.json_values import from_json
from pytest_jsbench.metrics.gates import Gate, check
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records import journal
from pytest_jsbench.records.call_load import CallLoad
from pytest_jsbench.records.merging import merge
from pytest_jsbench.records.metadata import RunMetadata
from pytest_jsbench.records.questions import each
from pytest_jsbench.records.records import AskedBy, Attempt, Record
from pytest_jsbench.records.runs import Records, RunVerdict
from pytest_jsbench.reports import run_json
from tests.support import examples
from tests.support.examples import replace
from tests.support.run_files import NAMES, store_shard

RUN_ID = examples.metadata().run_id


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Return three shards, the second without its last case."""
    return [
        store_shard(tmp_path / "1", "1/3", [examples.record(name) for name in "adg"], "adg"),
        store_shard(tmp_path / "2", "2/3", [examples.record("b", verdict=examples.VIOLATED)], "be"),
        store_shard(tmp_path / "3", "3/3", [examples.record(name) for name in "cf"], "cf"),
    ]


def ids(records: Sequence[Record]) -> str:
    return "".join(record.key.id for record in records)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_shards_become_the_run_that_they_are_parts_of(shards: list[Path], order: tuple[int, ...]) -> None:
    merged = merge([shards[number] for number in order])

    assert "".join(key.id for key in merged.run.planned) == NAMES
    assert ids(merged.run.records) == "abcdfg"
    assert not merged.absent
    assert merged.notes == ("merged 3 runs: 6 attempts, 0 of them in more than one run",)
    assert merged.run.metadata.dataset["shard"] is None
    assert merged.run.metadata.uuid == merge(shards).run.metadata.uuid != merge(shards[:2]).run.metadata.uuid


def test_merge_counts_repeated_attempts_once_and_prefers_answers(shards: list[Path], tmp_path: Path) -> None:
    again = [examples.record("e"), examples.record("b")]
    broken = examples.record("e", generation=examples.failed(), verdict=examples.BROKEN)
    paths = [
        store_shard(tmp_path / "2-first", "2/3", [broken], "be"),
        *shards,
        store_shard(tmp_path / "2-last", "2/3", again, "be"),
    ]

    merged = merge(paths)

    assert ids(merged.run.records) == NAMES
    assert merged.run.records[1].verdict == examples.VIOLATED
    assert merged.run.records[4] == again[0]
    assert "2 of them in more than one run" in merged.notes[0]
    assert merged.notes[1] == (
        "records kept for attempts in more than one run: 1 from the first of these runs, 1 from a later run, because "
        "the first call had failed; 1 attempt passed in one run and not in another: simple::b"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "other"}, 'its run used model "other", this run "m"'),
        ({"policy": {"fences": "forbid"}}, 'used policy {"fences": "forbid"}, this run {}'),
        ({"versions": {"judge": "9"}}, 'used judge "9", this run "1"'),
        (
            {"dataset": {"source": "builtin", "cases": 8, "cases_digest": f"sha256:{2:064}", "shard": "2/3"}},
            "used cases",
        ),
    ],
)
def test_merge_rejects_parts_of_different_runs(
    shards: list[Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    stranger = store_shard(tmp_path / "stranger", "2/3", [], "b", **changes)

    with pytest.raises(MergeError) as caught:
        merge([shards[0], stranger])

    assert f"{stranger} is not part of the run {shards[0]}" in str(caught.value)
    assert message in str(caught.value)


def test_merge_rejects_different_questions_for_a_case(shards: list[Path], tmp_path: Path) -> None:
    other = store_shard(tmp_path / "other", "1/3", [examples.record("a", schema=False)], "a")

    with pytest.raises(MergeError, match="simple::a has different prompts or schemas in two runs"):
        merge([shards[0], other])


def test_the_merged_run_is_a_run_like_any_other(shards: list[Path], tmp_path: Path) -> None:
    out = io.StringIO()

    passed = merge_runs(shards, tmp_path / "out", Output(out), gates=[Gate.least("pass_rate", "0.7")])

    assert passed
    content = journal.read_run(tmp_path / "out")
    assert content.metadata is not None
    assert ids(Records(content.outcomes)) == "abcdfg"
    data = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (data["metrics"]["planned"], data["metrics"]["missing"]) == (7, 1)
    assert "pass_rate 5/7 = 0.7143, gate >= 0.7: met" in out.getvalue()
    assert merge([tmp_path / "out"]).run.outcomes == content.outcomes


def test_merge_to_an_unwritable_place_is_one_line(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "taken").touch()

    with pytest.raises(MergeError, match=r"cannot write to .*taken"):
        merge_runs(shards, tmp_path / "taken", Output(io.StringIO()))


def test_merge_replaces_its_own_output_and_no_other_run(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resumed = store_shard(tmp_path / "4", "1/3", [examples.record("a")], "adg", run_id="r2", resumed_from=RUN_ID)
    other = store_shard(tmp_path / "5", "1/3", [examples.record("a")], "adg", run_id="r3")

    def merged(*parts: Path, into: str = "out") -> int:
        return main(["merge", *map(str, parts), "-o", str(tmp_path / into), "--min-pass-rate=0"], out=io.StringIO())

    assert [merged(*shards[1:]), merged(*shards), merged(resumed, *shards[1:])] == [1, 0, 0]
    kept = (tmp_path / "out" / "records.jsonl").read_bytes()
    assert merged(other) == 2
    message = f"jsbench: {tmp_path / 'out'} contains the run r2, which must not be replaced: choose another directory\n"
    assert capsys.readouterr().err == message
    assert (tmp_path / "out" / "records.jsonl").read_bytes() == kept
    assert merged(shards[0], into="1") == merged(resumed, into="3") == 2
    capsys.readouterr()
    (tmp_path / "runs").mkdir()
    other.rename(tmp_path / "runs" / "r3")  # in a directory of runs it would be hidden
    assert merged(*shards, into="runs") == 2
    assert f"{tmp_path / 'runs'} contains 1 run: choose a directory that does not exist yet" in capsys.readouterr().err
    (tmp_path / "figures").mkdir()
    (tmp_path / "out" / "run.json").rename(tmp_path / "figures" / "run.json")
    assert merged(*shards, into="figures") == 2
    assert f"{tmp_path / 'figures'} contains a run, which must not be replaced" in capsys.readouterr().err
    (tmp_path / "out" / "records.jsonl").write_text("torn")
    assert merged(*shards) == 2
    assert (
        f"{tmp_path / 'out'} contains a run, which must not be replaced: choose another directory"
        in capsys.readouterr().err
    )


def test_own_tests_of_each_shard_count_once(tmp_path: Path) -> None:
    def own(name: str, repeat: int = 0) -> Record:
        asked_by = AskedBy(test=f"test_it.py::{name}", terms="sha256:0")
        return replace(examples.record(name, task="test_it"), repeat=repeat, asked_by=asked_by)

    first = [*map(examples.record, "ac"), own("test_one"), own("test_one", 1), own("test_two")]
    second = [*map(examples.record, "bd"), own("test_one"), own("test_one", 1)]
    paths = [
        store_shard(tmp_path / "1", "1/2", first, "ac", own=["test_one", "test_one", "test_two", "test_two"]),
        store_shard(tmp_path / "2", "2/2", second, "bd", own=["test_one", "test_one"]),
    ]

    run = merge(paths).run

    assert [key.id for key in run.planned] == [*"abcd", "test_one", "test_one", "test_two", "test_two"]
    assert [record.key.id for record in run.records] == [*"abcd", "test_one", "test_one", "test_two"]
    assert summarize(run).total.missing == 1


def test_merged_run_has_a_verdict_on_screen_and_in_files(tmp_path: Path) -> None:
    output = io.StringIO()
    part = store_shard(
        tmp_path / "1", "1/2", [examples.record("a"), examples.record("c", verdict=examples.VIOLATED)], "ac"
    )

    passed = merge_runs([part], tmp_path / "out", Output(output))

    assert output.getvalue().startswith("merged 1 run: 2 attempts, ")
    assert "shard 2/2 is missing: the figures are incomplete" in output.getvalue()
    found = json.loads((tmp_path / "out" / "run.json").read_text())["verdict"]
    assert not passed
    assert (found["status"], found["exit_status"]) == ("failed", 1)
    assert found["because"] == ["1 test failed: simple::c", "shard 2/2 is missing"]
    assert "verdict    FAILED: 1 test failed: simple::c; shard 2/2 is missing\n" in output.getvalue()
    assert run_json.read_run(tmp_path / "out").verdict == from_json(RunVerdict, found)


def write_variants(folder: Path, metadata: RunMetadata, shard: str, *attempts: Attempt) -> Path:
    folder.mkdir()
    dataset = {"source": "builtin", "cases": 2, "cases_digest": f"sha256:{1:064}", "shard": shard}
    records = [replace(examples.record(one.key.id), variant=one.variant) for one in attempts]
    whole = replace(metadata, dataset=dataset).with_plan(attempts)
    journal.write(folder / "records.jsonl", whole, records)
    return folder


def of(variant: str, name: str) -> Attempt:
    return Attempt(CaseKey(task="simple", id=name), 0, variant)


def test_shards_with_variants_become_one_run_with_these_variants(tmp_path: Path) -> None:
    metadata = examples.variants(a={}, b={"model": "n"})
    parts = [
        write_variants(tmp_path / "1", metadata, "1/2", of("a", "x"), of("b", "x")),
        write_variants(tmp_path / "2", metadata, "2/2", of("a", "y"), of("b", "y")),
    ]

    merged = merge(parts)

    assert merged.run.variants == ("a", "b")
    assert [ids(merged.run.of_variant(name).records) for name in "ab"] == ["xy", "xy"]
    assert [merged.run.of_variant(name).metadata.model for name in "ab"] == ["m", "n"]
    assert merged.run.planned == merged.run.metadata.planned()
    assert not merged.absent


def test_merge_joins_runs_of_variants_and_lists_absent_shards_by_variant(tmp_path: Path) -> None:
    parts = [
        write_variants(tmp_path / "1", examples.variants(a={}), "1/1", of("a", "x"), of("a", "y")),
        write_variants(tmp_path / "2", examples.variants(b={"model": "n"}), "2/2", of("b", "y")),
    ]

    merged = merge(parts)

    assert merged.run.variants == ("a", "b")
    assert len(summarize(merged.run.of_variant("a")).outcomes) == 2
    assert merged.absent == ("1/2 of variant b",)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (examples.variants(a={"model": "n"}), r'model "n", this run "m" \(variant a\)'),
        (examples.variants(a={"prompt": "chat"}), r'used prompt "chat", this run "schema" \(variant a\)'),
        (examples.metadata(), "some have variants"),
        (examples.variants(b={"repeats": 2}), "used repeats 2"),
    ],
)
def test_merge_rejects_variants_with_different_questions(tmp_path: Path, other: RunMetadata, message: str) -> None:
    parts = [
        write_variants(tmp_path / "1", examples.variants(a={}), "1/2", of("a", "x")),
        write_variants(tmp_path / "2", other, "2/2", *[of(one.variant, "y") for one in each(other)]),
    ]

    with pytest.raises(MergeError, match=message):
        merge(parts)


def test_the_verdict_on_merged_variants_names_whose_answer_failed(tmp_path: Path) -> None:
    run = examples.compared(a="pv", b="pp")
    (tmp_path / "run").mkdir()
    journal.write(tmp_path / "run" / "records.jsonl", run.metadata, run.records)
    out = io.StringIO()

    assert not merge_runs([tmp_path / "run"], tmp_path / "merged", Output(out))

    assert "1 test failed: simple::case01[a]" in out.getvalue()
    assert "b against a: 1 more of 2 cases pass" in out.getvalue()


@pytest.mark.parametrize(
    ("shard", "problem"),
    [
        ("1/" + "9" * 5000, "run.dataset.shard"),
        ("1/99999999999", "run.dataset.shard"),
        ("1/1000000", "run.dataset.shard"),
        ("0/0", "run.dataset.shard"),
        ("0/5", "run.dataset.shard"),
        ("01/5", "run.dataset.shard"),
        ("5/2", "is shard 5/2; expected at most 2/2"),
        ("999999/999998", "is shard 999999/999998; expected at most 999998/999998"),
    ],
)
def test_impossible_shard_is_one_line(tmp_path: Path, shard: str, problem: str) -> None:
    with pytest.raises(JSBenchError) as refused:
        merge([store_shard(tmp_path / "1", shard, [examples.record("a")], "a")])

    assert problem in str(refused.value)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_of_many_shards_that_are_absent_the_first_and_the_last_are_named(tmp_path: Path) -> None:
    paths = [store_shard(tmp_path / one, f"{one}/999999", [examples.record(one)], one) for one in ("2", "7")]

    assert merge(paths).absent == ("1/999999", *(f"{one}/999999" for one in range(3, 7)), "8/999999 to 999999/999999")


def test_too_many_attempts_are_one_line(tmp_path: Path) -> None:
    paths = [
        store_shard(tmp_path / name, f"{shard}/2", [examples.record(name)], name, repeats=500_001)
        for shard, name in enumerate("ab", start=1)
    ]

    with pytest.raises(MergeError, match=r"have 1,000,002 planned attempts; expected at most 1,000,000$"):
        merge(paths)


def test_overlap_note_names_the_kept_run_and_counts_disagreements(tmp_path: Path) -> None:
    def whole(name: str, passed: int) -> Path:
        verdicts = [examples.PASSED if at < passed else examples.VIOLATED for at in range(len(NAMES))]
        made = zip(NAMES, verdicts, strict=True)
        return store_shard(
            tmp_path / name, None, [examples.record(one, verdict=verdict) for one, verdict in made], NAMES
        )

    out = io.StringIO()
    merge_runs([whole("first", 1), whole("second", 7)], tmp_path / "out", Output(out))

    message = out.getvalue()
    assert "merged 2 runs: 7 attempts, 7 of them in more than one run" in message
    assert "7 from the first of these runs; 6 attempts passed in one run and not in" in message
    assert "simple::b, simple::c, simple::d, simple::e, simple::f, and 1 more" in message
    assert "pass rate  1/7" in message


def test_a_merge_decides_by_the_gates_and_the_baseline_of_a_run(tmp_path: Path) -> None:
    before = store_shard(tmp_path / "before", None, [examples.record(name) for name in NAMES], NAMES)
    now = [examples.record(name, verdict=examples.PASSED if name != "a" else examples.VIOLATED) for name in NAMES]
    parts = [store_shard(tmp_path / str(at + 1), f"{at + 1}/2", now[at::2], NAMES[at::2]) for at in (0, 1)]
    shared = ["merge", *map(str, parts), "-o", str(tmp_path / "out"), "--baseline", str(before)]
    out = io.StringIO()

    strict = main([*shared, "--max-regression", "0.1", "--gate", "pass_rate>=0.8", "--min-pass-rate=0.5"], out=out)

    assert strict == 1
    assert "baseline   " in out.getvalue()
    assert "broke      1: simple::a" in out.getvalue()
    assert out.getvalue().count(": met") == 2
    assert "verdict    FAILED: 1 of 3 gates are not met: baseline.difference>=-0.1\n" in out.getvalue()
    assert main([*shared, "--max-regression", "0.2"], out=out) == 0
    data = json.loads((tmp_path / "out" / "run.json").read_text())
    assert data["baseline"]["newly_failing"] == ["simple::a"]
    assert [gate["gate"] for gate in data["gates"]] == ["baseline.difference>=-0.2"]


def test_a_merge_writes_the_reports_of_a_run_and_is_json_for_programs(shards: list[Path], tmp_path: Path) -> None:
    out = io.StringIO()

    code = main(["merge", *map(str, shards[:2]), "-o", str(tmp_path / "out"), "--json"], out=out)

    data, written = json.loads(out.getvalue()), json.loads((tmp_path / "out" / "run.json").read_text())
    merged = data.pop("merged")
    assert code == 1
    assert data == written
    assert merged["absent"] == ["3/3"]
    assert (merged["twice"], merged["disagreeing"]) == (0, [])
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("records.jsonl", "run.json", "summary.md", "report.html")
    }
    assert "shard 3/3 is missing" in (tmp_path / "out" / "summary.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gate", "pass_rat>=0.9"], "jsbench: --gate: no metric 'pass_rat': did you mean 'pass_rate'?"),
        (
            ["--gate", "baseline.difference>=0"],
            "--gate baseline.difference>=0: no baseline to compare with; add --",
        ),
        (["--max-regression", "0.1"], "--max-regression 0.1: no baseline to compare with; add --baseline=RUN"),
        (["--min-pass-rate", "9"], "--min-pass-rate: expected a number from 0 to 1, such as 0.9; found"),
        (["--baseline", "none.json"], "jsbench: --baseline: "),
        (
            ["--gate", "pass_at.2>=0.5"],
            "--gate: 'pass_at.2' needs 2 attempts per case: found 1; use pytest --jsbench-repeats=2",
        ),
        (["--gate", "pass_hat.1>=0.5"], "'pass_hat.1' needs 2 attempts per case: found 1; use pytest"),
        (["--gate", "scores.good>=0.5"], "no metric 'good': give it as pytest --jsbench-classify"),
    ],
)
def test_invalid_gate_of_a_merge_is_one_line_with_the_option(
    shards: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["merge", *map(str, shards), "-o", str(tmp_path / "out"), *options], out=io.StringIO()) == 2

    text = capsys.readouterr().err
    assert message in text
    assert "--jsbench" not in text.replace("pytest --jsbench", "")
    assert len(text.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_merged_run_keeps_tests_and_faults_of_each_run(shards: list[Path]) -> None:
    for number, shard in enumerate(shards):
        file = shard / "records.jsonl" if shard.is_dir() else shard
        header, *lines = file.read_text("utf-8").splitlines(keepends=True)
        data = json.loads(header)
        test = {"task": "tests", "id": f"test_{number}"}
        fault = {**test, "fault": "refuse", "api": "/responses", "streamed": False, "injected": 1, "coping": "raised"}
        data["run"] |= {"ended_tests": [{**test, "cause": "error"}], "fault_reports": [fault]}
        file.write_text("".join([json.dumps(data) + "\n", *lines]), "utf-8")

    merged = merge(shards).run.metadata

    assert [test.id for test in merged.ended_tests] == ["test_0", "test_1", "test_2"]
    assert [(report.id, report.coping) for report in merged.fault_reports] == [
        (f"test_{number}", "raised") for number in range(3)
    ]


def test_merged_run_has_no_figures_of_the_time_in_which_all_calls_were_made(tmp_path: Path) -> None:
    parts = []
    for at, names in enumerate(("ab", "cd"), start=1):
        loads = [CallLoad(began=1000 * at + call, ended=1000 * at + call + 1, late_s=0.1) for call in range(2)]
        made = [replace(examples.record(name), load=load) for name, load in zip(names, loads, strict=True)]
        parts.append(store_shard(tmp_path / str(at), f"{at}/2", made, names, rate="1/s", slo="tgt<=2"))
    out = io.StringIO()

    alone = summarize(journal.read_run(parts[0]).run(parts[0], MergeError)).total
    merged = merge(parts).run
    total = summarize(merged).total
    status = main(["merge", *map(str, parts), "-o", str(tmp_path / "out"), "--gate", "in_time>=1"], out=out)

    assert [alone.goodput, alone.achieved_rate] == pytest.approx([2 / 2.1, 1])
    assert (total.goodput, total.achieved_rate) == (None, None)
    assert (total.start_delay.count, total.in_time.n) == (4, 4)
    assert (merged.metadata.merged, journal.read_header(tmp_path / "out").merged, status) == (2, 2, 0)
    with pytest.raises(GateError, match="only a run with --jsbench-plain-share has this metric"):
        merge_runs(parts, tmp_path / "out", Output(out), gates=[Gate.parse("plain_calls<=0")])


@pytest.mark.parametrize("metric", ["goodput", "achieved_rate"])
def test_gate_on_goodput_of_a_merged_run_says_why_it_has_none(metric: str) -> None:
    load = CallLoad(began=1000, ended=1001, late_s=0.1)
    run = examples.run(replace(examples.record(), load=load), merged=2, rate="1/s")

    message = check(Gate.parse(f"{metric}>=1"), summarize(run)).message

    assert message.endswith(f"NOT MET, merged runs have no {metric}, as their parts ran at different times")


@pytest.mark.parametrize("changes", [{}, {"resumed_from": "earlier", "started_at": "1970-01-01T00:16:40+00:00"}])
def test_merge_of_one_run_keeps_the_figures_of_its_load(tmp_path: Path, changes: Mapping[str, Any]) -> None:
    loads = [CallLoad(began=began, ended=began + 1, late_s=0.1) for began in (10, 1001, 1003)]
    made = [replace(examples.record(name), load=load) for name, load in zip("abc", loads, strict=True)]
    alone = store_shard(tmp_path / "1", "1/1", made, "abc", rate="1/s", **changes)
    before = summarize(journal.read_run(alone).run(alone, MergeError)).total

    merge_runs([alone], tmp_path / "out", Output(io.StringIO()))

    merged = journal.read_run(tmp_path / "out").run(tmp_path / "out", MergeError)
    after = summarize(merged).total
    assert before.goodput is not None
    assert (after.goodput, after.achieved_rate) == (before.goodput, before.achieved_rate)
    assert "merged" not in merged.metadata.to_dict()


def test_merged_run_has_the_options_that_its_parts_share(tmp_path: Path) -> None:
    parts = [
        store_shard(tmp_path / "1", "1/2", [examples.record("a")], "a", options={"retries": 5, "rpm": 60}),
        store_shard(tmp_path / "2", "2/2", [examples.record("b")], "b", options={"retries": 5}),
    ]

    assert merge(parts).run.metadata.options == {"retries": 5}
