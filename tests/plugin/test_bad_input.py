from __future__ import annotations

import contextlib
import json
import textwrap
from fnmatch import fnmatch

import pytest

from pytest_jsbench.plugin.pytest_options import value_of
from pytest_jsbench.settings.options import BY_NAME
from pytest_jsbench.settings.parsers import names
from tests.support.bench import Bench
from tools.reference import EXAMPLES


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--jsbench-engine=opnai"], "*opnai*did you mean 'openai'?*"),
        (["--jsbench-tasks=ordres"], "*dataset 'schemas' has no task 'ordres': did you mean 'orders'?*"),
        (
            ["--jsbench-adapt=narrow"],
            "*engine 'scripted' has no default subset; specify a subset, such as narrow:openai*",
        ),
        (["--jsbench-dataset=nowhere"], "*no dataset 'nowhere': expected builtin*"),
        (["--jsbench-dataset=empty"], "*no schemas in empty: expected [*].json, *"),
        (
            ["--jsbench-min-pass-rate=90"],
            "*--jsbench-min-pass-rate: expected a number from 0 to 1, such as 0.9; found *",
        ),
        (["--jsbench-concurrency=0"], "*--jsbench-concurrency: expected a whole number of at least 1, found '0'*"),
        # an unset variable of a workflow removes no limit, gate or redaction
        (
            ["-o", "jsbench_redact=on", "--jsbench-redact="],
            "--jsbench-redact: expected one of on, off, found ''; write --jsbench-redact=on if the next *",
        ),
        (["--jsbench-engine="], "--jsbench-engine: expected NAME, found ''"),
        (["--jsbench-min-pass-rate="], "--jsbench-min-pass-rate: expected *, found ''"),
        (["--jsbench-shard=3/2"], "--jsbench-shard: expected NUMBER/COUNT such as 2/5, 1of5 (*, found '3/2'"),
        (
            ["--jsbench-export=xml=x"],
            "*unknown exporter 'xml': expected one of csv, every_eval_ever, parquet; to use your own *",
        ),
        (
            ["--jsbench-report=schemas"],
            "--jsbench-report: *schemas is a directory; name a file, such as *schemas/report.html",
        ),
        (["--jsbench-comparer=n=near"], "*--jsbench-comparer*"),
        (["--jsbench-comparer=n=function:no_such_module:same"], "*--jsbench-comparer*"),
        (
            ["--jsbench-classify=german"],
            "unknown classifier or metric 'german': expected package.module:function; no installed *",
        ),
        (["--jsbench-max-cost=1"], "--jsbench-max-cost: calls of engine 'scripted' have no published price*"),
        (["--jsbench-prompt=schemas"], "*unknown prompt 'schemas': did you mean 'schema'?*or a Jinja2 file*"),
        (["--jsbench-prompt=nowhere.j2"], "*no prompt file 'nowhere.j2'*"),
        (["--jsbench-prompt=nowhere:ask"], "*prompt: cannot import nowhere*"),
        (["--jsbench-where=sise<3"], "*--jsbench-where: unknown field 'sise': did you mean 'size'?*"),
        (["--jsbench-where=size>3000"], "*no case of 'schemas' meets 'size>3000'; the dataset has 1 case*"),
        (["--jsbench-gate=pass_rate", "--jsbench-dataset=read/before/gates"], "*--jsbench-gate: *'pass_rate'*"),
        (["--jsbench-gate=pas_rate>=0.9"], "*--jsbench-gate: no metric 'pas_rate': did you mean 'pass_rate'?*"),
        (
            ["--jsbench-gate=orders.scores.good>=0.1"],
            "*--jsbench-gate: 'orders.scores.good': this run has no metric 'good': give it as --jsbench-classify*",
        ),
        (
            ["--jsbench-gate=pass_hat.3>=0.5", "--jsbench-repeats=2"],
            "*--jsbench-gate: 'pass_hat.3' needs 3 attempts per case: found 2; use --jsbench-repeats=3*",
        ),
        (["--jsbench-max-regression=0.1"], "*--jsbench-max-regression 0.1: *add --jsbench-baseline=RUN"),
        (["--jsbench-baseline=nowhere.json"], "*--jsbench-baseline: *nowhere.json*No such file*"),
        (["--jsbench-baseline=other.json"], "*--jsbench-baseline: *other.json has no outcomes of cases*"),
        (["--jsbench-baseline=alien.json"], "*--jsbench-baseline: *alien.json has no case of this run*"),
        (["--jsbench-engine-option=answerz=x"], "*answerz*did you mean 'answers'?*"),
        (["--jsbench-output=taken"], "*--jsbench-output=*taken*choose a writable directory*"),
        # a worker on another machine
        (["--dist=load", "--tx=ssh=user@other"], "--tx=ssh=user@other: * use -n N * --jsbench-shard *"),
        (["--dist=load", "--tx=2*socket=other:8888"], "--tx=2[*]socket=other:8888: * use -n N *"),
        (["--dist=load", "--tx=popen//via=other"], "--tx=popen//via=other: * use -n N *"),
    ],
)
def test_bad_input_is_one_clear_line(bench: Bench, args: list[str], message: str) -> None:
    bench.case("a", {"fault": "engine", "message": "must not be asked"})
    (bench.path / "empty").mkdir()
    bench.write(
        {
            "other.json": '{"metrics": {"accuracy": 1}}',
            "taken": "a file",
            "alien.json": '{"metrics": {"n": 1}, "cases": {"x::y": {"attempts": ["passed"]}}}',
        }
    )

    with pytest.raises(pytest.UsageError) as error:
        bench.pytester.parseconfigure(*bench.arguments("--jsbench-output=out", *args))

    assert fnmatch(str(error.value), message)
    assert "\n" not in str(error.value)
    records = bench.path.glob("out/*/records*.jsonl")
    assert not any(line for path in records for line in path.read_text().splitlines()[1:])


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--jsbench-engine=opnai", "*opnai*did you mean 'openai'?*"),
        ("jsbench::orderz", "ERROR: not found: jsbench::orderz: did you mean 'jsbench::orders'?*"),
        ("jsbench::orderz::a", "ERROR: not found: jsbench::orderz::a: did you mean 'jsbench::orders::a'?*"),
    ],
)
def test_run_with_bad_input_ends_with_one_line_and_no_call(bench: Bench, argument: str, message: str) -> None:
    bench.case("a", {"fault": "engine", "message": "must not be asked"})

    result = bench.run("--jsbench-output=out", argument)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = [
        line for line in result.errlines if line.strip() and not line.startswith(("usage:", "  inifile", "  rootdir"))
    ]
    pytest.LineMatcher(errors).fnmatch_lines([message])
    assert len(errors) == 1, errors
    records = bench.path.glob("out/*/records*.jsonl")
    assert not any(line for path in records for line in path.read_text().splitlines()[1:])


def test_an_engine_that_does_not_start_ends_the_run_with_its_reason_alone(bench: Bench) -> None:
    factory = """
        from pytest_jsbench.core.errors import EngineError
        from pytest_jsbench.engines.scripted import ScriptedFactory

        class Factory(ScriptedFactory):
            def check(self, config): pass
            def prepare(self, config): raise EngineError("its server did not start")
    """
    bench.case("a")
    bench.write({"broken.py": textwrap.dedent(factory)})

    result = bench.pytester.runpytest_inprocess("--jsbench-engine=broken:Factory", "--jsbench-dataset=schemas")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: its server did not start"])
    result.stdout.no_fnmatch_line("*coverage*")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("jsbench_limit = many", "expected a whole number of at least 1, found 'many'"),
        ("jsbench_redact = maybe", "expected one of on, off, found 'maybe'"),  # a path cannot follow here
    ],
)
def test_a_bad_value_in_the_ini_file_names_the_file(bench: Bench, setting: str, message: str) -> None:
    bench.write({"pytest.ini": f"[pytest]\njsbench_engine = scripted\n{setting}\n"})

    result = bench.pytester.runpytest_inprocess()

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {setting.partition(' ')[0]} in *pytest.ini: {message}"])


def test_file_that_is_not_json_fails_with_its_path(bench: Bench) -> None:
    bench.case("good")
    bench.case("bad", schema="{oops")

    result = bench.run("-rs", "--jsbench-output=out")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["invalid_schema (not_json): schemas*bad.json: not JSON: *", "  next: * fix the schema*"]
    )
    assert [record["verdict"]["failure_type"] for record in bench.records()] == ["invalid_schema", None]


def toml_value(name: str) -> object:
    """Return the option's example as a user would write it in TOML."""
    option, text = BY_NAME[name], EXAMPLES[name]
    if option.repeated:
        return [text]
    if option.parse is names:
        return text.split(",")
    if text == "on":
        return True
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return text


@pytest.mark.skipif(pytest.version_tuple < (9, 2), reason="before pytest 9.2 its own TOML takes texts only")
def test_every_ini_key_takes_its_value_of_pytests_own_toml(pytester: pytest.Pytester) -> None:
    values = {f"jsbench_{name}": toml_value(name) for name in EXAMPLES}
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    pytester.makepyprojecttoml("\n".join(["[tool.pytest]", *lines]))

    config = pytester.parseconfig()

    assert {type(value) for value in values.values()} == {str, int, float, bool, list}
    for name, text in EXAMPLES.items():
        value = BY_NAME[name].of_text(text)
        assert value_of(config, name) == ([value] if BY_NAME[name].repeated else value), name


@pytest.mark.skipif(pytest.version_tuple < (9, 2), reason="before pytest 9.2 its own TOML takes texts only")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jsbench_temperature = true", "*expected a number of at least 0, found 'true'"),
        ("jsbench_batch = false", "*expected one of wait, leave, found 'false'*"),
        ("jsbench_batch = true", None),
        ("jsbench_dry_run = false", None),
    ],
)
def test_a_truth_of_pytests_own_toml_switches_an_option(
    pytester: pytest.Pytester, line: str, message: str | None
) -> None:
    pytester.makepyprojecttoml(f"[tool.pytest]\n{line}\n")
    config, name = pytester.parseconfig(), line.split()[0].removeprefix("jsbench_")
    if message is None:
        assert value_of(config, name) == {"batch": "wait", "dry_run": False}[name]
        return
    with pytest.raises(pytest.UsageError) as caught:
        value_of(config, name)
    assert fnmatch(str(caught.value), message)
