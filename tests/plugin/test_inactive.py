from __future__ import annotations

import json
import re
import sys

import pytest

from tests.support.bench import WITHOUT_SLOW_PLUGINS

HEAVY = ("jsonschema", "jsonschema_rs", "openai", "anthropic", "google.genai", "xllamacpp", "datasets")
#: Modules that a run needs only after its answers, or only on request.
LATE = (
    *("jsonschema", "jsonschema_rs", "jinja2", "yaml", "openai", "genai_prices", "datasets"),
    "pytest_jsbench.adaptation.narrowing",
    "pytest_jsbench.adaptation.document",
    "pytest_jsbench.datasets.labelled",
    *(f"pytest_jsbench.metrics.{name}" for name in ("comparison", "gates", "metrics", "statistics", "summary")),
)
LATE_ROOMS = ("pytest_jsbench.reports.", "pytest_jsbench.engines.recorded.", "pytest_jsbench.lab.")


def normalized(result: pytest.RunResult) -> list[str]:
    return [
        re.sub(r"in \d+\.\d+s", "in Xs", line)
        for line in result.outlines
        if not line.startswith(("plugins:", "Using --randomly"))
    ]


def test_installed_but_not_asked_for_it_changes_no_output(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_one(): pass\ndef test_two(): assert 0")

    quick = ("-p", "no:randomly", "-p", "no:cacheprovider", *WITHOUT_SLOW_PLUGINS, "-v", "-rA")

    with_plugin = pytester.runpytest_subprocess(*quick)
    without = pytester.runpytest_subprocess(*quick, "-p", "no:jsbench")

    assert normalized(with_plugin) == normalized(without)
    assert with_plugin.ret == without.ret


@pytest.mark.slow
@pytest.mark.usefixtures("cold")
def test_installed_but_not_asked_for_it_imports_nothing_heavy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import sys
        def test_nothing_is_imported():
            ours = [name for name in sys.modules if name.startswith("pytest_jsbench.")]
            assert "pytest_jsbench.plugin" in ours
            plugin = ("plugin", "plugin.pytest_options", "plugin.hookspecs")
            options = ("settings", "settings.option", "settings.options", "settings.parsers")
            groups = ("settings.call_options", "settings.load_options")
            parts = (*plugin, *options, *groups, "core", "core.arguments")
            assert set(ours) <= {{"pytest_jsbench." + part for part in parts}}
            assert not [name for name in {HEAVY!r} if name in sys.modules]
        """
    )

    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.usefixtures("cold")
def test_startup_imports_nothing_that_only_other_runs_need(
    pytester: pytest.Pytester,
) -> None:
    pytester.makefile(".json", schema=json.dumps({"type": "integer"}))
    pytester.makepyfile(
        noting="""
        import json, os, sys
        from pathlib import Path

        def answer(request):
            loaded = sorted(name for name in sys.modules if "." not in name or name.startswith("pytest_jsbench."))
            Path(f"loaded-{os.getpid()}.txt").write_text("\\n".join(loaded))
            return "1"
        """
    )
    asked = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=noting:answer")

    result = pytester.runpytest_subprocess(
        *asked, "--jsbench-dataset=schema.json", "-p", "no:randomly", *WITHOUT_SLOW_PLUGINS
    )

    result.assert_outcomes(passed=1)
    (noted,) = pytester.path.glob("loaded-*.txt")
    loaded = noted.read_text().split()
    assert "pytest_jsbench.run.attempts" in loaded
    # gates and a baseline are read before any call
    late = [name for name in loaded if name in LATE or name.startswith(LATE_ROOMS)]
    assert set(late) <= {"pytest_jsbench.reports.expectations"}


@pytest.mark.usefixtures("cold")
def test_only_modules_with_tests_have_rewritten_assertions(pytester: pytest.Pytester) -> None:
    pytester.makefile(".json", answers="{}")
    pytester.makepyfile(
        """
        import sys
        import pytest_jsbench.testing

        def test_loaders():
            rewritten = [
                name for name, module in sys.modules.items()
                if name.startswith("pytest_jsbench.") and type(module.__loader__).__name__ == "AssertionRewritingHook"
            ]
            assert "pytest_jsbench.run.attempts" in sys.modules
            # imported before the plugin knows whether it is active
            early = ("pytest_jsbench.plugin", "pytest_jsbench.settings", "pytest_jsbench.core")
            assert [name for name in rewritten if not name.startswith(early)] == ["pytest_jsbench.testing"]

        def test_own_assertions():
            left = 1
            assert left == 2
        """
    )

    asked = ("--jsbench-engine=scripted", "--jsbench-engine-option=answers=answers.json")

    result = pytester.runpytest_subprocess(*asked, "-p", "no:randomly", ".", *WITHOUT_SLOW_PLUGINS)

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E *assert 1 == 2"])


def test_its_options_are_prefixed_and_in_a_group_of_their_own(pytester: pytest.Pytester) -> None:
    helped = pytester.runpytest_inprocess("--help").stdout.str()
    without = pytester.runpytest_inprocess("--help", "-p", "no:jsbench").stdout.str()

    added = set(re.findall(r"^  (-\S+)", helped, re.M)) - set(re.findall(r"^  (-\S+)", without, re.M))
    assert added
    assert all(option.startswith("--jsbench-") for option in added)


def test_test_that_requests_a_case_is_skipped_without_an_engine(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "def test_case(jsbench_case): raise AssertionError\n"
        "def test_answer(jsbench): jsbench.generate('a number'), jsbench.no_such_thing\n"
        "def test_shared(jsbench_shared): jsbench_shared('a').generate('a number'), jsbench_shared.no_such_thing\n"
    )

    result = pytester.runpytest_inprocess("-rs")

    result.assert_outcomes(skipped=3)
    result.stdout.fnmatch_lines(["*no engine is set; run with --jsbench-engine=NAME*"])


def test_the_plugin_itself_imports_only_its_options(pytester: pytest.Pytester) -> None:
    code = "import sys, pytest; before = {*sys.modules}; import pytest_jsbench.plugin; print(*{*sys.modules} - before)"

    result = pytester.run(sys.executable, "-c", code)

    assert [name for name in result.stdout.str().split() if not name.startswith("pytest_jsbench")] == []


def test_the_package_itself_imports_nothing(pytester: pytest.Pytester) -> None:
    code = "import sys, pytest_jsbench; print([n for n in sys.modules if n.startswith('pytest')])"

    result = pytester.run(sys.executable, "-c", code)

    assert result.outlines == ["['pytest_jsbench']"]


@pytest.mark.parametrize(
    "typed",
    [
        ("--jsbench-dataset=schemas",),
        ("--jsbench-limit", "3"),
        ("--jsbench-output=runs", "."),
        ("jsbench",),
        ("jsbench::simple::bookmark",),
    ],
)
def test_an_option_of_a_run_without_an_engine_says_what_is_missing(
    pytester: pytest.Pytester, typed: tuple[str, ...]
) -> None:
    pytester.makepyfile("def test_one(): pass")

    result = pytester.runpytest_inprocess(*typed)

    assert result.ret is pytest.ExitCode.USAGE_ERROR
    flag = typed[0].partition("=")[0]
    (line,) = [line for line in result.errlines if line]
    assert line.startswith(f"ERROR: {flag} needs an engine: add --jsbench-engine=NAME")


def test_what_an_ini_file_or_an_option_of_judging_says_asks_for_no_engine(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeini("[pytest]\njsbench_dataset = schemas\naddopts = --jsbench-limit=3")
    pytester.makepyfile(
        """
        import pytest
        @pytest.mark.jsbench(schema={"properties": {"a": True}})
        def test_handed_in(jsbench):
            jsbench.check('{"b": 1}')
        """
    )
    monkeypatch.setenv("PYTEST_ADDOPTS", "--jsbench-sample=3")

    pytester.runpytest_inprocess("--jsbench-extra-fields=allow").assert_outcomes(passed=1)
    pytester.runpytest_inprocess().assert_outcomes(failed=1)
