from __future__ import annotations

import json

from pytest_jsbench.core.generations import ServedBy
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.facts import AttemptFacts
from pytest_jsbench.records.records import AnsweredBy, Record
from pytest_jsbench.records.runs import Run
from pytest_jsbench.records.serving import add_served
from pytest_jsbench.reports.history import HistoryLine
from pytest_jsbench.reports.run_json import run_to_dict, settings_apart
from pytest_jsbench.reports.run_report import facts
from tests.support import examples
from tests.support.examples import completion, record, replace


def answer(case_id: str, *, variant: str = "", **served_by: str) -> Record:
    generation = replace(completion(), served_by=ServedBy(**served_by))
    return replace(record(case_id, generation=generation), variant=variant)


def served(run: Run) -> Run:
    return replace(run, metadata=add_served(run.metadata, run.outcomes))


def test_names_of_servers_are_listed_the_most_frequent_first() -> None:
    records = [answer(f"c{number}", model="m", fingerprint=f"fp_{number % 2}") for number in range(3)]
    remembered = replace(answer("old", model="earlier"), answered_by=AnsweredBy(engine="recorded", model="m"))

    run = served(examples.run(*records, remembered, record("silent")))

    assert run.metadata.served == {"model": ["m"], "fingerprint": ["fp_0", "fp_1"]}
    assert run.metadata.to_dict()["served"] == run.metadata.served
    assert "served" not in examples.metadata().to_dict()


def test_server_that_sends_another_fingerprint_each_time_fills_no_file() -> None:
    run = served(examples.run(*(answer(f"c{number}", fingerprint=f"fp_{number:03}") for number in range(50))))

    assert run.metadata.served == {"fingerprint": [f"fp_{number:03}" for number in range(20)]}


def test_each_variant_has_its_own_servers() -> None:
    metadata = examples.variants(a={"model": "a"}, b={"model": "b"})
    records = [answer("x", variant=name, model=f"{name}-1") for name in ("a", "b")]
    run = examples.run_of_variants(metadata, *records)

    run = served(run)

    assert [variant.served for variant in run.metadata.variants] == [{"model": ["a-1"]}, {"model": ["b-1"]}]
    assert [run.of_variant(name).metadata.served for name in ("a", "b")] == [{"model": ["a-1"]}, {"model": ["b-1"]}]
    assert ("served by", "a: model a-1") in facts(run, summarize(run))


def test_report_names_a_server_that_is_not_the_requested_one_or_that_changed() -> None:
    def fact(*served_by: dict[str, str]) -> str | None:
        run = served(examples.run(*(answer(f"c{number}", **names) for number, names in enumerate(served_by))))
        return dict(facts(run, summarize(run))).get("served by")

    assert fact({"model": "m"}) is None
    assert fact({"model": "m", "fingerprint": "fp_1"}) is None
    assert fact() is None
    assert fact({"model": "m-2026-11-01"}) == "model m-2026-11-01"
    assert fact({"model": "m", "provider": "DeepInfra"}) == "model m; provider DeepInfra"
    assert fact({"model": "m", "fingerprint": "f1"}, {"fingerprint": "f2"}) == "model m; 2 fingerprints f1, f2"
    assert fact({"model": "m\x1b[2J"}) == "model m\\x1b[2J"


def test_runs_served_by_different_models_differ_in_a_setting() -> None:
    runs = [served(examples.run(answer("c", model=f"m-2026-1{number}-01", fingerprint="f"))) for number in range(2)]
    old = examples.run(record("c"))

    lines = [HistoryLine.of(examples.evaluation(run)) for run in runs]

    differences = settings_apart([examples.evaluation(run) for run in runs])

    assert [(each.name, each.bears_on, each.shown) for each in differences] == [
        ("served.model", "answers", ("m-2026-10-01", "m-2026-11-01"))
    ]
    assert settings_apart([examples.evaluation(run) for run in (runs[0], old)]) == ()
    assert [each.name for each in lines[1].changes_since(lines[0])] == ["served.model"]


def test_record_and_run_file_keep_the_servers() -> None:
    made = answer("c", model="m-1", fingerprint="f")

    read = Record.from_dict(json.loads(json.dumps(made.to_dict())))

    assert AttemptFacts.of(read).served_by == ServedBy(model="m-1", fingerprint="f")
    run = served(examples.run(made))
    written = run_to_dict(run, summarize(run), config_path="c")
    assert written["run"]["served"] == {"model": ["m-1"], "fingerprint": ["f"]}
