from __future__ import annotations

import importlib.util
import json

import pytest

from pytest_jsbench.plugin.configuration import Settings
from tests.support.bench import ANSWERING, NUMBER, Bench, with_workers
from tests.support.project_tests import run, run_one

TESTS = """
import pathlib
import pytest

NUMBER = pathlib.Path(__file__).with_name("number.json")
echoing = pytest.mark.jsbench(schema="number.json", prompt="echo {text}", temperature=0.5)

@pytest.fixture
def answer(jsbench):
    return jsbench.generate(text='{"n": -3}')

@echoing
def test_it_answers(jsbench):
    answer = jsbench.generate(text='{"n": 1}')
    assert answer.instance == answer.parsed == {"n": 1}
    assert (answer.text, answer.verdict.passed) == ('{"n": 1}', True)
    assert answer.timing.tgt >= 0 and answer.usage.output_tokens is None

@echoing
def test_it_breaks_the_schema(jsbench):
    jsbench.generate(text='{"n": -1}')

@echoing
def test_it_is_looked_at(jsbench):
    answer = jsbench.generate(text='{"n": -1}', check=False)
    assert answer.verdict.keyword == "minimum"
    assert jsbench.using(prompt="echo {it}").generate(it='{"n": 2}').instance == {"n": 2}

@echoing
@pytest.mark.parametrize("number", [1, 2])
def test_it_is_the_project_s_own_business(jsbench, number):
    assert jsbench.generate(text='{"n": 2}').instance["n"] == number

@pytest.mark.jsbench(schema="number.json", prompt="count", repeats=4, min_pass=2)
def test_it_passes_often_enough(jsbench):
    assert jsbench.generate().instance["n"] % 2

@pytest.mark.jsbench(schema="number.json", prompt="count", repeats=4, min_pass=3)
def test_it_passes_too_seldom(jsbench):
    jsbench.generate()

@echoing
def test_it_fails_in_a_fixture(answer):
    pass

class TestGroup:
    @echoing
    def test_it_is_in_a_class(self, jsbench):
        jsbench.generate(text='{"n": 3}')
"""


@pytest.fixture
def project(bench: Bench) -> Bench:
    """Create tests of a project, with one answer of each kind."""
    bench.write({"tests/test_numbers.py": TESTS, "tests/number.json": json.dumps(NUMBER)})
    return bench


SCHEMA_FILES = """
import pytest

@pytest.mark.jsbench(schema="order.json", prompt="echo {text}")
def test_it_refers_to_the_file_beside_it(jsbench):
    assert jsbench.generate(text='{"count": {"n": -1}}', check=False).verdict.keyword == "minimum"
    jsbench.generate(text='{"count": {"n": 1}}')

@pytest.mark.jsbench(schema="number.yaml", prompt="echo {text}")
def test_it_is_yaml(jsbench):
    jsbench.generate(text='{"n": 1}')

@pytest.mark.jsbench(schema="twice.json", prompt="echo {text}")
def test_it_has_a_key_twice(jsbench):
    jsbench.generate(text='{"n": 1}')
"""


@pytest.mark.skipif(importlib.util.find_spec("yaml") is None, reason="needs the package PyYAML")
def test_the_marker_s_schema_file_is_read_as_a_dataset_s_schema_is(bench: Bench) -> None:
    bench.write(
        {
            "tests/test_files.py": SCHEMA_FILES,
            "tests/order.json": '{"properties": {"count": {"$ref": "number.json"}}}',
            "tests/number.json": json.dumps(NUMBER),
            "tests/number.yaml": "properties: {n: {minimum: 0}}",
            "tests/twice.json": '{"type": "string", "type": "object"}',
        }
    )
    result = run(bench, "tests")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines("E * the schema *twice.json is not JSON: an object has the key 'type' twice*")


@with_workers
def test_project_tests_are_judged_recorded_and_counted_like_any_case(project: Bench) -> None:
    result = run(project, "tests", "--jsbench-output=out", "--junitxml=junit.xml", "-v")

    result.assert_outcomes(passed=5, failed=4)
    records = {(each["task"], each["id"], each["repeat"]): each for each in project.records()}
    task = "tests.test_numbers"
    assert {(name, repeat) for _, name, repeat in records} == {
        ("test_it_answers", 0),
        ("test_it_breaks_the_schema", 0),
        ("test_it_is_looked_at", 0),
        ("test_it_is_looked_at@2", 0),
        ("test_it_is_the_project_s_own_business-1", 0),
        ("test_it_is_the_project_s_own_business-2", 0),
        *(("test_it_passes_often_enough", repeat) for repeat in range(4)),
        *(("test_it_passes_too_seldom", repeat) for repeat in range(4)),
        ("test_it_fails_in_a_fixture", 0),
        ("TestGroup.test_it_is_in_a_class", 0),
    }
    violated = records[task, "test_it_breaks_the_schema", 0]
    assert violated["prompt"]["messages"] == [{"role": "user", "content": 'echo {"n": -1}'}]
    assert violated["verdict"]["failure_type"] == "schema_violation"
    metrics = project.run_json()["tasks"][task]["metrics"]
    assert (metrics["planned"], metrics["passed"], metrics["missing"]) == (16, 9, 0)
    assert project.run_json()["metrics"]["planned"] == 16
    result.stdout.fnmatch_lines(["tests.test_numb*", "pass rate  9/16*"])
    junit = (project.path / "junit.xml").read_text()
    assert '<failure message="schema_violation: $.n: -1 is less than the minimum of 0"' in junit
    assert '<property name="jsbench.attempts" value="4"' in junit
    again = "E         again:  pytest --jsbench-engine=scripted --jsbench-engine-option=answers=answering:echo"
    result.stdout.fnmatch_lines_random(
        [
            ">       jsbench.generate(text='{\"n\": -1}')",
            "E       schema_violation: $.n: -1 is less than the minimum of 0",
            "E         minimum at $.n [[]schema /properties/n/minimum]",
            'E         answer: {"n": -1}',
            f"{again} tests/test_numbers.py::test_it_breaks_the_schema",
            "E       2 of 4 repeats passed, 3 needed",
            ">       return jsbench.generate(text='{\"n\": -3}')",
            "tests/test_numbers.py:*: CaseFailed",
        ]
    )
    result.stdout.no_fnmatch_line("*asking.py*")
    result.stdout.no_fnmatch_line("*pytest_jsbench.fixture.jsbench*")


def test_marker_arguments_reach_the_engine_and_the_record_names_it(bench: Bench) -> None:
    bench.write({"other.json": json.dumps({"test_other": '{"n": 7}', "test_either-b": '{"n": 7}'})})

    result = run_one(
        bench,
        "other = pytest.mark.jsbench(engine='scripted', model='other', engine_options={'answers': 'other.json'})\n"
        "pytestmark = pytest.mark.jsbench(schema=NUMBER, messages=[{'role': 'user', 'content': 'echo {text}'}])\n"
        "@pytest.mark.jsbench(temperature=0.25)\n"
        "def test_warm(jsbench): jsbench.generate(text='{\"n\": 1}')\n"
        "@other\ndef test_other(jsbench): assert jsbench.generate(text='1').instance == {'n': 7}\n"
        "@pytest.mark.parametrize('n', [pytest.param(1, id='a'), pytest.param(7, id='b', marks=other)])\n"
        "def test_either(jsbench, n): assert jsbench.generate(text='{\"n\": 1}').instance == {'n': n}\n"
        "def test_whole(jsbench): jsbench.generate('echo {\"n\": 1}')\n",
        "--jsbench-output=out",
    )

    result.assert_outcomes(passed=5)
    calls = [json.loads(line) for line in (bench.path / "calls.txt").read_text().splitlines()]
    assert [call[3] for call in calls] == [0.25, None, None]
    answered_by = {record["id"]: record["answered_by"] for record in bench.records()}
    other = {"engine": "scripted", "model": "other", "provider": None}
    assert answered_by == {
        "test_warm": None,
        "test_other": other,
        "test_either-a": None,
        "test_either-b": other,
        "test_whole": None,
    }


#: Marker arguments, body of the test, and its error.
CANNOT_ASK = (
    (
        "prompt='echo'",
        "jsbench.generate()",
        "no schema; set @pytest.mark.jsbench(schema=…), or jsbench.using(schema=…)",
    ),
    (
        "schema=NUMBER",
        "jsbench.generate(text='a')",
        "no prompt to fill with text; set @pytest.mark.jsbench(schema=…, prompt=…)",
    ),
    ("schema=NUMBER", "jsbench.using(engine='lokal').generate()", "unknown engine 'lokal': did you mean 'local'? *"),
    ("schema={'type': 'intger'}", "jsbench.generate()", "invalid_schema (*"),
    ("", "jsbench.check('{}', schema=3)", "not a schema: 3 is an int*"),
    ("", "jsbench.check('{}', schema={}, messages=3)", "check(): the prompt is neither text nor *"),
    (
        "",
        "jsbench.check('{}', schema={'enum': {1}})",
        "not a JSON Schema: Object of type set is not JSON serializable*",
    ),
    ("", "jsbench.check(object())", "the answer, a object, has no JSON form*"),
    ("", "jsbench.check('{}')", "no schema; set @pytest.mark.jsbench(schema=…), or check(schema=…)*"),
    ("", "shared('a', shema=NUMBER)", "jsbench_shared() has no argument 'shema': did you mean 'schema'? *"),
    ("", "shared('a', repeats=2)", "jsbench_shared() does not accept 'repeats': *"),
    ("", "shared('')", "jsbench_shared(): found ''; expected a name for the answer*"),
    ("", "shared('a', schema=NUMBER).endpoint", "jsbench_shared has no endpoint, *"),
    ("", "shared('a').generate('?')", "no schema; set *"),
)


def test_a_test_that_cannot_ask_fails_at_its_own_line_with_the_next_step(bench: Bench) -> None:
    shared = "@pytest.fixture\ndef shared(jsbench_shared): return jsbench_shared\n"
    code = (
        f"@pytest.mark.jsbench({marker})\ndef test_{number}(jsbench, shared): {asks}\n"
        for number, (marker, asks, _) in enumerate(CANNOT_ASK)
    )

    result = run_one(bench, shared + "".join(code), "--jsbench-min-pass-rate=0")

    assert (result.ret, result.parseoutcomes()) == (1, {"failed": len(CANNOT_ASK)})
    for _, asks, problem in CANNOT_ASK:
        lines = [f"> *: {asks}", f"E * {problem}"]
        result.stdout.fnmatch_lines([line.replace("[", "[[]").replace("?", "[?]") for line in lines])
    result.stdout.no_fnmatch_line("*/pytest_jsbench/*.py:*")


def test_invalid_marker_is_reported_before_any_call(bench: Bench) -> None:
    result = run_one(
        bench,
        "@pytest.mark.jsbench(schema=NUMBER)\ndef test_first(jsbench): jsbench.generate()\n"
        "@pytest.mark.jsbench(shema=NUMBER)\ndef test_it(jsbench): jsbench.generate()\n"
        "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.jsbench(repeats=0))])\n"
        "def test_one(jsbench, n): jsbench.generate()\n",
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR collecting test_one.py*",
            "test_one.py::test_it: the marker jsbench has no argument 'shema': did you mean 'schema'[?] *",
            "test_one.py::test_one[[]1]: the marker jsbench: repeats: expected a whole number from 1 to *, found 0",
        ]
    )
    assert not (bench.path / "calls.txt").exists()


def test_skips_and_xfails_are_pytests_and_answers_take_one_line(bench: Bench) -> None:
    mark = "@pytest.mark.jsbench(schema=NUMBER, prompt='count', repeats=3)\n"

    result = run_one(
        bench,
        f"{mark}def test_skipped(jsbench): pytest.skip('not now')\n"
        f"{mark}def test_expected(jsbench): pytest.xfail('known')\n"
        f"{mark}@pytest.mark.xfail(strict=True)\ndef test_marked(jsbench): jsbench.generate()\n"
        f"{mark}def test_failed(jsbench):\n    if jsbench.generate(check=False).verdict.passed: pytest.fail('mine')\n"
        "@pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')\n"
        "def test_shown(jsbench):\n    assert jsbench.generate(text='{\"n\": -1}', check=False) == 1\n",
    )

    result.assert_outcomes(skipped=1, xfailed=2, failed=2)
    result.stdout.fnmatch_lines(["E * mine", "E *2 of 3 repeats passed, 3 needed"])
    shown = 'Answer(test_one::test_shown, schema_violation: $.n: -1 is less than the minimum of 0, {"n": -1})'
    result.stdout.fnmatch_lines([f"E       assert {shown} == 1"])


@pytest.mark.skipif(importlib.util.find_spec("anyio") is None, reason="needs the package anyio")
def test_coroutines_ask_at_once_and_repeat(bench: Bench) -> None:
    code = (
        "import asyncio\n"
        "pytestmark = pytest.mark.anyio\n"
        "@pytest.fixture\ndef anyio_backend(): return 'asyncio'\n"
        "mark = pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')\n"
        "@mark\nasync def test_many(jsbench):\n"
        "    texts = ['{\"n\": %d}' % n for n in range(5)]\n"
        "    answers = await asyncio.gather(*(jsbench.agenerate(text=text) for text in texts))\n"
        "    assert [answer.text for answer in answers] == texts\n"
        "@mark\nasync def test_bad(jsbench):\n    await jsbench.agenerate(text='{')\n"
        "@pytest.mark.jsbench(schema=NUMBER, prompt='count', repeats=4, min_pass=2)\n"
        "async def test_repeated(jsbench):\n    await jsbench.agenerate()\n"
    )
    bench.plugins = ("anyio",)

    result = run_one(bench, code, "--jsbench-output=out")

    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [">       await jsbench.agenerate(text='{')", "E       syntax_error *", "*: CaseFailed"]
    )
    many = sorted(record["id"] for record in bench.records() if record["id"].startswith("test_many"))
    assert many == ["test_many", "test_many@2", "test_many@3", "test_many@4", "test_many@5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ini", "args", "expected"),
    [
        ("", ["--jsbench-engine=scripted"], {"suite"}),
        ("", ["--jsbench-engine=scripted", "test_one.py"], {"own"}),
        ("", ["--jsbench-engine=scripted", "--jsbench-dataset=schemas", "test_one.py"], {"own", "suite"}),
        ("", ["--jsbench-engine=scripted", "--jsbench-record=answers"], {"own"}),
        ("jsbench_engine = scripted", [], {"own"}),
        ("jsbench_engine = scripted", ["--jsbench-dataset=schemas"], {"suite"}),
        ("jsbench_engine = scripted", ["jsbench"], {"suite"}),
        ("jsbench_engine = scripted\njsbench_dataset = schemas", [], {"own", "suite"}),
        ("jsbench_engine = scripted\njsbench_dataset = schemas", ["test_one.py"], {"own"}),
    ],
)
def test_the_schemas_of_a_dataset_run_only_where_they_are_asked_for(
    bench: Bench, ini: str, args: list[str], expected: set[str]
) -> None:
    bench.write({"test_one.py": "", "pytest.ini": f"[pytest]\n{ini}\n"})

    targets = Settings.from_config(bench.pytester.parseconfig(*args)).targets

    assert {name for name in ("suite", "own") if {"suite": targets.suite, "own": targets.project}[name]} == expected


def test_prompt_built_by_a_test_is_sent_verbatim_without_data(bench: Bench) -> None:
    result = run_one(
        bench,
        "pytestmark = pytest.mark.jsbench(schema=True, prompt='of the marker {schema} {{name}}')\n"
        "def test_texts(jsbench):\n"
        "    heard = 'customer wrote: {schema} {name} {{name}}'\n"
        "    ask = lambda prompt, **data: jsbench.generate(prompt, check=False, **data)\n"
        "    for prompt in (heard, [{'role': 'user', 'content': heard}]):\n"
        "        assert ask(prompt).record.prompt.messages[0].content == heard\n"
        "        assert ask(prompt, name='x{schema}').record.prompt.messages[0].content == "
        "'customer wrote: true x{schema} {name}'\n"
        "    assert ask(None).record.prompt.messages[0].content == 'of the marker true {name}'\n"
        "    again = jsbench.using(messages=[{'role': 'user', 'content': '{schema} {name}'}])\n"
        "    assert again.generate(check=False, name='x').record.prompt.messages[0].content == 'true x'\n",
    )

    result.assert_outcomes(passed=1)


@pytest.mark.skipif(importlib.util.find_spec("pydantic") is None, reason="needs the package pydantic")
def test_type_refusal_is_reported_at_the_line_of_the_test(bench: Bench) -> None:
    result = run_one(
        bench,
        "from pydantic import BaseModel, field_validator\n"
        "class Odd(BaseModel):\n"
        "    n: int\n"
        "    @field_validator('n')\n    @classmethod\n"
        "    def is_odd(cls, n):\n"
        "        if n == 4: raise KeyError('four')\n"
        "        if n % 2 == 0: raise ValueError('not odd')\n"
        "        return n\n"
        "pytestmark = pytest.mark.jsbench(schema=Odd, prompt='echo {text}')\n"
        "@pytest.mark.parametrize('text', ['{\"n\": 2}', '{\"n\": 4}', 'so it is', '{\"n\": []}'])\n"
        "def test_it(jsbench, text):\n"
        "    answer = jsbench.generate(text=text, check=False)\n"
        "    assert answer.parsed.n\n"
        "def test_validated(jsbench): Odd.model_validate(jsbench.generate(text='{\"n\": 2}').instance)\n",
        "--jsbench-output=out",
    )

    result.assert_outcomes(failed=5)
    refused = {"end": "failed", "cause": "type_refused", "field": "n", "message": "n: Value error, not odd"}
    records = bench.records()
    assert [records[0]["test_outcome"], records[-1]["test_outcome"]] == [refused, refused]
    assert records[0]["verdict"]["failure_type"] is None
    result.stdout.fnmatch_lines_random(
        [
            "E * conforms to the JSON Schema of Odd, but Odd rejects it: n: Value error, not odd",
            "E * KeyError: 'four'",
            ">       if n == 4: raise KeyError('four')",
            "E * the answer contains no JSON value to convert: syntax_error (prose): *",
            "E * does not conform to the JSON Schema of Odd (schema_violation: $.n: *), but Odd rejects it: n: *",
        ]
    )
    result.stdout.no_fnmatch_line("*/pytest_jsbench/*.py:*")
    result.stdout.no_fnmatch_line("*/pydantic/*.py:*")


@pytest.mark.slow
def test_a_test_that_is_ended_from_outside_shows_its_own_line(bench: Bench) -> None:
    """Fail the test during its call, as pytest-timeout does."""
    bench.case("slow")
    bench.write(
        {
            "ending.py": "import pytest\ndef answer(request): pytest.fail('Timeout (>1.0s)')\n",
            "test_one.py": f"import pytest\n@pytest.mark.jsbench(schema={NUMBER!r}, prompt='any')\n"
            "def test_it(jsbench):\n    jsbench.generate()\n",
        }
    )

    result = bench.run_only(
        "--jsbench-engine=scripted",
        "--jsbench-engine-option=answers=ending:answer",
        "--jsbench-dataset=schemas",
        "test_one.py",
    )

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines_random(
        [
            ">       jsbench.generate()",
            "E       Failed: Timeout (>1.0s)",
            "FAILED jsbench::orders::slow - Timeout (>1.0s)",
            "FAILED test_one.py::test_it - Failed: Timeout (>1.0s)",
        ]
    )
    assert len(result.outlines) < 70
    result.stdout.no_fnmatch_line("*runner.py*")


def test_an_annotation_leads_to_the_test_that_asked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(bench.path.parent))
    mark = "@pytest.mark.jsbench(schema=NUMBER, prompt='echo -')\n"

    result = run_one(bench, f"\n\n{mark}def test_it(jsbench):\n    jsbench.generate()\n")

    place = f"file={bench.path.name}/test_one.py,line=5"
    result.stdout.fnmatch_lines([f"::error {place},title=jsbench test_one%3A%3Atest_it::syntax_error: *"])


BROKEN = """
mark = pytest.mark.jsbench(schema=NUMBER, prompt='echo {text}')
@mark
def test_good(jsbench): jsbench.generate(text='{"n": 1}')
@pytest.mark.jsbench(schema={"type": "any"}, prompt='x')
def test_broken(jsbench): jsbench.generate()
@pytest.mark.jsbench(schema={"type": "any"}, prompt='x', repeats=2)
def test_repeated(jsbench): jsbench.generate()
"""


@with_workers
def test_skipping_invalid_schemas_holds_for_markers_too(bench: Bench) -> None:
    result = run_one(bench, BROKEN, "--jsbench-invalid-schemas=skip", "-rs")

    result.assert_outcomes(passed=1, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED * invalid_schema: $.type: 'any' is not a type*", "pass rate  1/1 = 1.000*"])
    assert result.ret == pytest.ExitCode.OK


def test_broken_schema_of_a_marker_fails_by_default_with_what_to_fix(bench: Bench) -> None:
    result = run_one(bench, BROKEN)

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["E *next: * fix the schema: $: type `any` belongs to draft 3: remove `type`; or skip*"]
    )


def test_rerun_command_names_the_test_from_a_subdirectory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "@pytest.mark.jsbench(schema={'type': 'array'}, prompt='x')\ndef test_it(jsbench): jsbench.generate()\n"
    bench.write(
        {"pytest.ini": "[pytest]\n", "sub/test_one.py": f"import pytest\n{code}", "sub/answering.py": ANSWERING}
    )
    monkeypatch.chdir(bench.path / "sub")

    engine = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answering:good")
    result = bench.run_only(*engine, "test_one.py")

    result.stdout.fnmatch_lines(["*again:  pytest *answers=answering:good test_one.py::test_it"])
