from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.timing import Timing
from pytest_jsbench.lab.published import (
    BesidePublished,
    compare_with_published,
    coverage_of_run,
    published_coverage,
    published_masks,
    row_to_dict,
)
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.runs import Run
from pytest_jsbench.reports.blocks import TableBlock
from pytest_jsbench.reports.run_json import Evaluation, parse, run_to_dict
from pytest_jsbench.reports.terminal import fact_lines, table_lines
from pytest_jsbench.settings.options import OPTIONS
from tests.support import examples
from tests.support.examples import record, replace

#: Rows of the paper whose compliance rate is not the quotient of the other two.
UNLIKE = {("Github_easy", "Outlines"), ("Snowplow", "Outlines")}


def evaluated(run: Run) -> Evaluation:
    return parse(run_to_dict(run, summarize(run), config_path="c"), source="run.json")


def evaluation(*tasks: str, **changes: object) -> Evaluation:
    """Make a run of four cases in each task, with three that pass."""
    run = examples.run(
        *(
            record(f"c{at}", task=task, verdict=examples.PASSED if at else examples.VIOLATED)
            for task in tasks
            for at in range(4)
        )
    )
    return evaluated(replace(run, metadata=examples.metadata(**changes)))


def grammar(task: str, *, masks: tuple[float, ...] = (), **changes: object) -> Evaluation:
    """Make a run with one case, whose labelled answers a grammar decided."""
    decided = replace(examples.decided(), timing=Timing(tgt=0.5, grammar_compilation=0.01, masks=masks))
    run = examples.run(record("c", task=task, verdict=examples.DECIDED_RIGHTLY, generation=decided))
    return evaluated(replace(run, metadata=examples.metadata(**changes)))


def lines_of(found: BesidePublished) -> list[str]:
    return [
        line
        for block in found.blocks()
        for line in (table_lines(block) if isinstance(block, TableBlock) else fact_lines(block))
    ]


def test_published_coverage_with_repeats_has_an_interval_over_cases() -> None:
    made = [
        replace(record(f"c{at}", task="Glaiveai2K", verdict=examples.PASSED if at else examples.VIOLATED), repeat=one)
        for at in range(4)
        for one in range(5)
    ]
    run = examples.run(*made)

    data = row_to_dict(coverage_of_run(evaluated(run), "Glaiveai2K"))

    assert data["empirical"] == pytest.approx(data["compliance"])
    assert data["empirical"] == pytest.approx(summarize(run).total.pass_rate.to_dict())


def test_published_compliance_is_the_quotient_of_the_published_coverages() -> None:
    unlike = set()
    for task, row in published_coverage().tasks.items():
        for framework, one in row.items():
            declared, empirical, compliance = (rate["value"] or 0.0 for rate in row_to_dict(one).values())
            least, most = (empirical - 0.005) / (declared + 0.005), (empirical + 0.005) / (declared - 0.005)
            if not least - 0.006 <= compliance <= most + 0.006:
                unlike.add((task, framework))

    assert unlike == UNLIKE


def test_preset_has_existing_options_and_the_tasks_of_the_table() -> None:
    table, known = published_coverage(), {option.name: option for option in OPTIONS}

    assert [known[name].of_text(text) is not None for name, text in table.options.items()] == [True] * len(
        table.options
    )
    assert table.options["tasks"].split(",") == list(table.tasks)


def test_long_run_names_stay_distinct_and_unpublished_tasks_are_listed() -> None:
    names = [f"temperature-0 (20261126T00{minute}00Z-openai-gpt-of-long-name)" for minute in (11, 22)]
    (found,) = compare_with_published([evaluation("Glaiveai2K", "Github_trivial") for _ in names], names)

    tables = [block for block in found.blocks() if isinstance(block, TableBlock)]
    facts = [fact for block in found.blocks() if isinstance(block, list) for fact in block]

    assert len({name for name, _ in tables[0].rows}) == len(tables[0].rows)
    assert ("left out", "tasks without published figures: Github_trivial") in facts
    assert found.to_dict()["left_out"] == ["Github_trivial"]


def test_run_is_listed_with_each_framework_in_the_terms_of_the_paper() -> None:
    (found,) = compare_with_published([evaluation("Glaiveai2K", "mine")], ["ours"])

    assert list(found.tasks) == ["Glaiveai2K"]
    assert list(found.tasks["Glaiveai2K"])[:3] == ["ours", "LM only", "Guidance"]
    ours = found.tasks["Glaiveai2K"]["ours"]
    assert tuple(rate["value"] for rate in row_to_dict(ours).values()) == (1.0, 0.75, 0.75)
    assert row_to_dict(found.tasks["Glaiveai2K"]["Guidance"])["empirical"]["value"] == 0.96


def test_settings_are_named_in_which_the_publication_says_otherwise() -> None:
    dataset = {"source": "builtin", "split": "test", "limit": None, "sample": 300}
    params = {"temperature": 0, "max_tokens": 9, "seed": 1, "timeout": 1.0}
    asked = {"prompt": "chat", "shots": 2, "params": params, "policy": {"formats": "ignore"}, "dataset": dataset}

    (found,) = compare_with_published([evaluation("Github_hard", **asked)], ["ours"])

    assert {one.name: one.values for one in found.settings} == {
        "model": ("Llama-3.2-1B-Instruct", "m"),
        "dataset": ("epfl-dlab/JSONSchemaBench", "builtin"),
        "split": ("all", "test"),
        "sample": (None, 300),
        "timeout": (80.0, 1.0),
        "judge.formats": ("assert", "ignore"),
    }
    said = "\n".join(lines_of(found))
    assert "model (affects answers): Llama-3.2-1B-Instruct → m" in said
    assert "sample (affects cases): all → 300" in said
    assert max(map(len, said.splitlines())) <= 80


def test_each_deciding_setting_is_listed_also_if_not_published() -> None:
    dataset = {
        "source": "epfl-dlab/JSONSchemaBench",
        "split": "all",
        "limit": 30,
        "sample": 20,
        "sample_seed": 7,
        "where": ["size<3000 and not keywords:pattern"],
        "steps": ["filter easy"],
        "shard": "1/2",
    }
    params = {"temperature": 0, "max_tokens": 10, "timeout": 5}
    asked = {"dataset": dataset, "params": params, "details": {"bounded": True}, "adapt": "narrow"}
    run = evaluation("Github_hard", **asked)
    run = replace(run, tasks={"Github_hard": {**run.tasks["Github_hard"], "cases": 217, "excluded": 3}})

    (found,) = compare_with_published([run], ["ours"])

    named = {one.name: one.values for one in (*found.settings, *found.unstated)}
    assert (
        named.items()
        >= {
            "where": ([], ["size<3000 and not keywords:pattern"]),
            "steps": ([], ["filter easy"]),
            "shard": (None, "1/2"),
            "limit": (None, 30),
            "sample": (None, 20),
            "adapt": ("verbatim", "narrow"),
            "max_tokens": ("not known", 10),
            "timeout": (80.0, 5),
            "engine.bounded": ("not known", True),
        }.items()
    )
    said = lines_of(found)
    (row,) = (line for line in said if line.startswith("ours"))
    assert row.endswith("217 of 1,240")
    assert next(line for line in said if line.startswith("Guidance")).endswith(" 1,240")
    whole = " ".join(" ".join(said).split())
    assert 'where (affects cases): none → ["size<3000 and not keywords:pattern"]' in whole
    assert "unstated settings that affect results and that the publication does not state: engine " in whole
    assert "engine.bounded true, max_tokens 10" in whole
    assert "excluded ours: 3 attempts with invalid schemas in Github_hard" in whole
    assert found.to_dict()["cases"] == {"Github_hard": {"ours": {"cases": 217, "excluded": 3, "published": 1240}}}
    assert "engine.bounded" in [setting["name"] for setting in found.to_dict()["unstated"]]
    assert max(map(len, said)) <= 80


def test_run_with_labelled_answers_has_no_empirical_coverage() -> None:
    (table,) = compare_with_published([grammar("Snowplow")], ["ours"])

    ours = table.tasks["Snowplow"]["ours"]
    assert tuple(rate["value"] for rate in row_to_dict(ours).values()) == (1.0, None, None)


def test_published_outcomes_of_masks_are_those_of_all_schemas() -> None:
    data = tomllib.loads(files("pytest_jsbench.lab").joinpath("published.toml").read_text("utf-8"))["masks"]
    assert {name: sum(row["schemas"]) for name, row in data["engines"].items()} == dict.fromkeys(data["engines"], 10163)
    outlines = row_to_dict(published_masks().tasks["all"]["Outlines"])
    assert outlines["grammar_compilation"]["p50"] == pytest.approx(6.987012)
    assert outlines["declared_coverage"]["value"] == pytest.approx((4259 + 649 + 614) / 10163)
    assert outlines["pass_rate"]["value"] == pytest.approx(4259 / 10163)


def test_run_with_mask_times_is_compared_with_maskbench() -> None:
    details = {"llguidance": "1.9.1", "bounded": False, "compile_timeout": 900}
    timed = grammar("ours", details=details, masks=(1e-5, 2e-5, 6e-5))
    (found,) = compare_with_published([evaluation("other"), timed], ["free", "outlines"])

    assert list(found.tasks["all"])[:2] == ["outlines (here)", "LLGuidance"]
    assert row_to_dict(found.tasks["all"]["outlines (here)"])["mask_time"]["p50"] == 2e-5
    settings = {one.name: one.values for one in found.settings}
    assert settings["engine.llguidance"] == ("0.6.7", "1.9.1")
    assert not {"engine.compile_timeout", "engine.xgrammar"} & settings.keys()
    said = lines_of(found)
    rows = [line.split() for line in said]
    assert ["LLGuidance", "47.0", "36.0", "60.0", "460.0"] in [row[:5] for row in rows]
    assert [row[-4:] for row in rows if row[:1] == ["Outlines"]][1] == ["621,693.63", "0.54", "0.42", "10,163"]
    assert max(len(line) for line in said if "https" not in line) <= 80


def test_run_of_other_tasks_cannot_be_compared_with_it() -> None:
    with pytest.raises(RecordError, match=r"no published figures for the tasks of these runs \(simple\): expected"):
        compare_with_published([evaluation("simple")], ["ours"])
