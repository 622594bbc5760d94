"""The example applications under `examples/`, replayed as their READMEs say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.plugin.conftest import WITHOUT_SLOW_PLUGINS, not_a_worker  # noqa: F401  for an in-process run of its own

INVOICES = Path(__file__).parents[1] / "examples" / "invoices"
QUICK = ("-p", "no:randomly", "-p", "no:cacheprovider", *WITHOUT_SLOW_PLUGINS)


@pytest.fixture
def invoices(pytester: pytest.Pytester) -> pytest.Pytester:
    pytest.importorskip("pydantic", reason="needs the package pydantic")
    shutil.copytree(INVOICES, pytester.path, dirs_exist_ok=True)
    return pytester


def test_its_tests_pass_on_recorded_answers(invoices: pytest.Pytester) -> None:
    result = invoices.runpytest_inprocess(*QUICK)

    result.assert_outcomes(passed=4, xfailed=1)
    result.stdout.fnmatch_lines(["jsbench: engine recorded, *", "pass rate  8/8*"])


def test_a_change_of_its_schema_is_seen_without_a_model(invoices: pytest.Pytester) -> None:
    application = invoices.path / "invoices.py"
    application.write_text(application.read_text().replace("EUR|USD", "EUR|USD|CHF"))

    result = invoices.runpytest_inprocess(*QUICK, "-k", "tidy")

    result.assert_outcomes(failed=1)
    change = '$.properties.currency.pattern was "^(EUR|USD)$", is "^(EUR|USD|CHF)$"'
    result.stdout.fnmatch_lines([f"E  *the schema is not the recorded one: {change}; record it again*"])


def test_its_workflow_and_its_readme_name_options_that_exist() -> None:
    from pytest_jsbench.plugin.options.declared import OPTIONS

    pages = [INVOICES / "README.md", INVOICES / ".github" / "workflows" / "tests.yml", INVOICES / "pytest.ini"]
    text = "\n".join(page.read_text("utf-8") for page in pages)

    assert set(re.findall(r"--jsbench-[a-z-]+", text)) <= {option.flag for option in OPTIONS}
    assert set(re.findall(r"^jsbench_[a-z_]+", text, flags=re.MULTILINE)) <= {option.dest for option in OPTIONS}
