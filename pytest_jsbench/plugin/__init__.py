"""
The pytest plugin, the only package that imports pytest. Without an engine, the plugin only declares its options.

`pytest_options` declares the options and `configuration` reads them; `activation` starts a run. In each process,
`worker` makes the attempts for the tests in `items` and `project_tests`. In the main process, `controller` decides the
exit status and writes the files, and `terminal` prints the summary.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pytest_jsbench.plugin.pytest_options import NO_ENGINE, add_options, check_ini_keys, find_run_argument, value_of

if TYPE_CHECKING:
    from pytest_jsbench.core.cases import Case
    from pytest_jsbench.fixture.jsbench import JSBench, SharedJSBench


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's command-line options and ini keys."""
    add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks that other plugins and `conftest.py` may implement."""
    from pytest_jsbench.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_configure(config: pytest.Config) -> None:
    """Activate the plugin if an engine is set; otherwise raise pytest.UsageError for an option that needs an engine."""
    config.addinivalue_line(
        "markers",
        "jsbench(schema, prompt, repeats, min_pass, …): a test of answers against a JSON Schema (pytest-jsbench)",
    )
    config.addinivalue_line(
        "markers",
        "jsbench_faults(names…): run a test for each fault that jsbench.endpoint injects, or for all (pytest-jsbench)",
    )
    if config.getoption("help", default=False):
        return
    check_ini_keys(config)
    if _is_active(config):
        from pytest_jsbench.plugin.plain_imports import import_plainly

        import_plainly(config)
        _start_reader(config)
        from pytest_jsbench.plugin.activation import activate

        activate(config)
    elif flag := find_run_argument(config):
        message = (
            f"{flag} needs an engine: add --jsbench-engine=NAME (`jsbench engines` lists the engines), "
            "or set jsbench_engine in the ini file"
        )
        raise pytest.UsageError(message)
    elif any(value_of(config, name) for name in ("min_pass_rate", "gate", "max_regression")):
        from pytest_jsbench.plugin.configuration import check_gates

        check_gates(config)


def _is_active(config: pytest.Config) -> bool:
    return any(value_of(config, name) for name in ("engine", "replay", "record", "variants"))


def _start_reader(config: pytest.Config) -> None:
    """Start the child process that reads the dataset, if it needs one, while this process imports its modules."""
    from pytest_jsbench.datasets.sources.parquet_child import start_for

    # problems are reported when the option or the directory is read
    with suppress(pytest.UsageError, OSError, ValueError, RuntimeError):
        for source in value_of(config, "dataset") or ():
            start_for(source)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """
    Parametrize tests that make calls over the variants of the run, and tests that use `jsbench_case` over the cases of
    the dataset.
    """
    wanted = {"jsbench", "jsbench_shared", "jsbench_case"}.intersection(metafunc.fixturenames)
    if wanted and _is_active(metafunc.config):
        from pytest_jsbench.plugin.pytest_fixtures import parametrize

        parametrize(metafunc)
    if "jsbench" in wanted and metafunc.definition.get_closest_marker("jsbench_faults") is not None:
        from pytest_jsbench.plugin.fault_parameters import parametrize_faults

        parametrize_faults(metafunc)


@pytest.fixture
def jsbench(request: pytest.FixtureRequest) -> JSBench:
    """Call the run's engine: `jsbench.generate(…)` returns an answer, judged by the schema in the test's marker."""
    from pytest_jsbench.plugin.pytest_fixtures import open_fixture, open_without_run

    return open_fixture(request) if _is_active(request.config) else open_without_run(request)


@pytest.fixture(scope="session")
def jsbench_shared(request: pytest.FixtureRequest) -> SharedJSBench:
    """
    Share one call among several tests: call `jsbench_shared("invoice", schema=…).generate("…")` in a fixture of any
    scope.
    """
    if not _is_active(request.config):
        pytest.skip(NO_ENGINE)
    from pytest_jsbench.plugin.pytest_fixtures import open_shared

    return open_shared(request)


@pytest.fixture
def jsbench_case(request: pytest.FixtureRequest) -> Case:
    """Return a case of the dataset, with `.key.task`, `.key.id` and `.schema`; the test runs once for each case."""
    if not hasattr(request, "param"):
        pytest.skip("no engine is set; run with --jsbench-engine=NAME")
    from pytest_jsbench.plugin.pytest_fixtures import load_case

    return load_case(request)
