from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.plugin.options.declared import OPTIONS
from pytest_jsbench.reports.evaluations import Evaluation, parse, run_to_dict
from pytest_jsbench.reports.published import beside_published, published_coverage, published_lines
from tests import examples
from tests.examples import record

#: rows whose compliance rate is not the quotient of the other two, in the paper itself
UNLIKE = {("Github_easy", "Outlines"), ("Snowplow", "Outlines")}


def evaluation(*tasks: str, **changes: object) -> Evaluation:
    """A run of four cases in each task, of which three pass."""
    found = examples.run(
        *(
            record(f"c{at}", task=task, verdict=examples.PASSED if at else examples.VIOLATED)
            for task in tasks
            for at in range(4)
        )
    )
    found = replace(found, metadata=examples.metadata(**changes))
    return parse(run_to_dict(found, summarize(found), config_path="c"), source="run.json")


def test_published_compliance_is_the_quotient_of_the_published_coverages() -> None:
    unlike = set()
    for task, row in published_coverage().tasks.items():
        for framework, one in row.items():
            declared, empirical, compliance = (
                rate.value or 0.0 for rate in (one.declared, one.empirical, one.compliance)
            )
            least, most = (empirical - 0.005) / (declared + 0.005), (empirical + 0.005) / (declared - 0.005)
            if not least - 0.006 <= compliance <= most + 0.006:
                unlike.add((task, framework))

    assert unlike == UNLIKE


def test_the_preset_gives_options_that_there_are_and_the_tasks_of_the_table() -> None:
    table, known = published_coverage(), {option.name: option for option in OPTIONS}

    assert [known[name].read(text) is not None for name, text in table.options.items()] == [True] * len(table.options)
    assert table.options["tasks"].split(",") == list(table.tasks)


def test_a_run_stands_beside_each_framework_in_the_words_of_the_paper() -> None:
    found = beside_published([evaluation("Glaiveai2K", "mine")], ["ours"])

    assert list(found.tasks) == ["Glaiveai2K"]
    assert list(found.tasks["Glaiveai2K"])[:3] == ["ours", "LM only", "Guidance"]
    ours = found.tasks["Glaiveai2K"]["ours"]
    assert (ours.declared.value, ours.empirical.value, ours.compliance.value) == (1.0, 0.75, 0.75)
    assert found.tasks["Glaiveai2K"]["Guidance"].to_dict()["empirical"]["value"] == 0.96


def test_settings_are_named_in_which_the_publication_says_otherwise() -> None:
    dataset = {"source": "builtin", "split": "test", "limit": None, "sample": 300}
    params = {"temperature": 0, "max_tokens": 9, "seed": 1, "timeout": 1.0}
    asked = {"prompt": "chat", "shots": 2, "params": params, "policy": {"formats": "ignore"}, "dataset": dataset}

    found = beside_published([evaluation("Github_hard", **asked)], ["ours"])

    assert {one.name: one.values for one in found.settings} == {
        "model": ("Llama-3.2-1B-Instruct", "m"),
        "dataset": ("epfl-dlab/JSONSchemaBench", "builtin"),
        "split": ("all", "test"),
        "sample": (None, 300),
        "judge.formats": ("assert", "ignore"),
    }
    said = "\n".join(published_lines(found))
    assert "model (bears on answers): Llama-3.2-1B-Instruct → m" in said
    assert max(map(len, said.splitlines())) <= 80


def test_a_grammar_that_decided_on_labelled_answers_has_no_empirical_coverage() -> None:
    decided = record("c", task="Snowplow", verdict=examples.DECIDED_RIGHTLY, generation=examples.decided())
    run = examples.run(decided)
    found = parse(run_to_dict(run, summarize(run), config_path="c"), source="run.json")

    ours = beside_published([found], ["ours"]).tasks["Snowplow"]["ours"]

    assert (ours.declared.value, ours.empirical.value, ours.compliance.value) == (1.0, None, None)


def test_a_run_of_other_tasks_cannot_stand_beside_it(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"nothing is published of the tasks of these runs \(simple\): expected"):
        beside_published([evaluation("simple")], ["ours"])
