from __future__ import annotations

import pytest

from tests.plugin.conftest import Bench


@pytest.fixture
def asked(bench: Bench) -> Bench:
    bench.case("a", "asked", schema={"type": "string"})
    bench.write(
        {
            "answering.py": "import json\ndef answer(request):\n"
            "    return json.dumps(' | '.join(f'{m.role}: {m.content}' for m in request.prompt.messages))\n",
            "asking.py": "def ask(case): return f'Answer {case.key.id}'\n",
            "mine.j2": "{% block system %}Rules of {{ task }}{% endblock %}{% block user %}{{ id }}?{% endblock %}",
        }
    )
    return bench


@pytest.mark.parametrize(
    ("prompt", "expected"), [("mine.j2", '"system: Rules of orders | user: a?"'), ("asking:ask", '"user: Answer a"')]
)
def test_a_users_own_prompt_is_asked_and_its_digest_stands_in_the_run(asked: Bench, prompt: str, expected: str) -> None:
    if prompt.endswith(".j2"):
        pytest.importorskip("jinja2", reason="needs the extra prompts")

    result = asked.run(
        "--jsbench-engine-option=answers=answering:answer", f"--jsbench-prompt={prompt}", "--jsbench-output=out"
    )

    result.assert_outcomes(passed=1)
    (record,), run = asked.records(), asked.run_json()["run"]
    assert record["generation"]["text"] == expected
    assert record["prompt"]["digest"].startswith("sha256:")
    assert record["prompt_length"]["exact"] is False
    assert (run["prompt"], run["shots"]) == (prompt, 0)
    assert run["prompt_digest"].startswith("sha256:")


def test_a_case_that_cannot_fit_is_said_so_and_not_sent(bench: Bench) -> None:
    bench.case("long", schema={"description": "word " * 400})
    bench.case("short")

    result = bench.run("--jsbench-context=300", "--jsbench-output=out", "--jsbench-shots=1", "--jsbench-prompt=chat")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["jsbench: prompt chat, 1 example first"])
    result.stdout.fnmatch_lines(
        ["*unsupported_schema (context_length): the prompt has about * tokens and the model's context 300; nothing*"]
    )
    total = bench.run_json()["metrics"]
    assert (total["planned"], total["declined"], total["failed"], total["declared_coverage"]) == (2, 1, 0, 0.5)
