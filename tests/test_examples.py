"""Test the example applications under `examples/` by replay, as documented in their READMEs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.bench import WITHOUT_SLOW_PLUGINS
from tests.support.commands import run, shown

pytestmark = pytest.mark.usefixtures("session_modules", "not_a_worker")
ROOT = Path(__file__).parents[1]
INVOICES = ROOT / "examples" / "invoices"
REGRESSION = INVOICES.with_name("regression")
APPLICATIONS = INVOICES.with_name("applications")
TOOLS = INVOICES.with_name("tools")
SLOW = "JSBENCH_SLOW_EXAMPLES" in os.environ
ON_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the workflow's steps run in bash")
QUICK = ("-p", "no:randomly", "-p", "no:cacheprovider", *WITHOUT_SLOW_PLUGINS)


@pytest.fixture
def invoices(pytester: pytest.Pytester) -> pytest.Pytester:
    pytest.importorskip("pydantic", reason="needs the package pydantic")
    shutil.copytree(INVOICES, pytester.path, dirs_exist_ok=True)
    return pytester


def test_its_tests_pass_on_recorded_answers(invoices: pytest.Pytester) -> None:
    result = invoices.runpytest_inprocess(*QUICK)

    result.assert_outcomes(passed=4, xfailed=1)
    result.stdout.fnmatch_lines(
        ["jsbench: engine recorded, *", "pass rate  8/8*", "values     7/8 = 0.875 (95 % interval *) right*"]
    )


def test_a_change_of_its_schema_is_seen_without_a_model(invoices: pytest.Pytester) -> None:
    application = invoices.path / "invoices.py"
    application.write_text(application.read_text().replace("EUR|USD", "EUR|USD|CHF"))

    result = invoices.runpytest_inprocess(*QUICK, "-k", "tidy")

    result.assert_outcomes(failed=1)
    change = '$.properties.currency.pattern was "^(EUR|USD)$", is "^(EUR|USD|CHF)$"'
    result.stdout.fnmatch_lines([f"E  *the schema differs from the recording: {change}; record it again*"])


@pytest.mark.parametrize("folder", [INVOICES, REGRESSION], ids=lambda folder: folder.name)
def test_its_workflow_and_its_readme_name_options_that_exist(folder: Path) -> None:
    from pytest_jsbench.settings.options import OPTIONS

    (workflow,) = (folder / ".github" / "workflows").iterdir()
    text = "\n".join(page.read_text("utf-8") for page in (folder / "README.md", workflow, folder / "pytest.ini"))

    assert set(re.findall(r"--jsbench-[a-z-]+", text)) <= {option.flag for option in OPTIONS}
    assert set(re.findall(r"^jsbench_[a-z_]+", text, flags=re.MULTILINE)) <= {option.dest for option in OPTIONS}


def step(name: str) -> str:
    """Return the script of a step of the workflow of the example `regression`."""
    yaml = pytest.importorskip("yaml", reason="needs the package pyyaml")
    workflow = yaml.safe_load((REGRESSION / ".github" / "workflows" / "jsbench.yml").read_text("utf-8"))
    (found,) = (one for job in workflow["jobs"].values() for one in job["steps"] if one.get("name") == name)
    script: str = found["run"]
    return script


def run_step(name: str, folder: Path, **environment: str) -> None:
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step(name)],
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        check=True,
        capture_output=True,
        timeout=60,
    )


@ON_POSIX
@pytest.mark.parametrize(
    ("known", "call"),
    [
        ("", "--method POST repos/us/app/issues/7/comments"),
        ("41\n99\n", "--method PATCH repos/us/app/issues/comments/41"),
    ],
)
def test_a_pull_request_gets_one_comment_which_each_later_run_changes(tmp_path: Path, known: str, call: str) -> None:
    (tmp_path / "runs").mkdir()
    arguments = ("compare", run(tmp_path / "run.json", "m", 3), "--comment=gate")
    (tmp_path / "runs" / "comment.md").write_text(shown(*arguments))
    (tmp_path / "bin").mkdir()
    said = f'case "$*" in *--jq*) printf "{known}" ;; esac'
    (tmp_path / "bin" / "gh").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls\n{said}\n')
    (tmp_path / "bin" / "gh").chmod(0o755)

    run_step("Create or update the comment", tmp_path, GITHUB_REPOSITORY="us/app", NUMBER="7")

    looked, made = (tmp_path / "calls").read_text().splitlines()
    assert 'startswith("<!-- jsbench:gate -->")' in looked
    assert 'login == "github-actions[bot]"' in looked
    assert made == f"api --silent {call} -F body=@runs/comment.md"


@pytest.mark.slow
@ON_POSIX
@pytest.mark.parametrize("baseline", [True, False])
def test_comment_reports_changes_since_main_with_a_baseline(tmp_path: Path, baseline: bool) -> None:
    for folder in ("kept", "runs/one"):
        (tmp_path / folder).mkdir(parents=True)
    if baseline:
        shown("baseline", run(tmp_path / "main.json", "m", 20), "-o", tmp_path / "kept" / "baseline.json")
    run(tmp_path / "runs" / "one" / "run.json", "m", 8)
    (tmp_path / "runs" / "one" / "records.jsonl").touch()

    run_step("Report changes", tmp_path)

    text = (tmp_path / "runs" / "comment.md").read_text()
    assert text.startswith("<!-- jsbench:gate -->\n### jsbench: `here`\n")
    assert ("- compared: `here against main: 12 fewer of 20 cases pass" in text) is baseline
    assert ("| `simple` | 20 | 1.000 (0.832 to 1.000) | 0.400 (0.191 to 0.639) * |" in text) is baseline


@ON_POSIX
def test_a_text_that_is_not_the_comment_is_never_sent(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "comment.md").write_text("@everyone look\n")
    (tmp_path / "bin").mkdir()

    with pytest.raises(subprocess.CalledProcessError):
        run_step("Create or update the comment", tmp_path, GITHUB_REPOSITORY="us/app", NUMBER="7")


@pytest.mark.slow
@ON_POSIX
def test_each_run_of_the_main_branch_adds_a_line_to_the_history(tmp_path: Path) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    remote = tmp_path / "remote"
    subprocess.run([git, "init", "--quiet", "--bare", str(remote)], check=True)

    for number in (1, 2, 2):
        folder = tmp_path / f"job{len(list(tmp_path.iterdir()))}"
        (folder / "runs" / "one").mkdir(parents=True)
        (folder / "runs" / "one" / "records.jsonl").touch()
        path = run(folder / "runs" / "one" / "run.json", "m", number)
        path.write_text(path.read_text().replace("20261121T100000Z", f"2026112{number}T100000Z"))
        run_step(
            "Add a line to the history",
            folder,
            REMOTE=str(remote),
            GITHUB_SHA="abc",
            GITHUB_STEP_SUMMARY=str(folder / "page.md"),
        )

    subprocess.run(
        [git, "clone", "--quiet", "--branch=jsbench-history", str(remote), str(tmp_path / "kept")], check=True
    )
    assert len((tmp_path / "kept" / "history.jsonl").read_text().splitlines()) == 2
    assert '"passed": 2' in (tmp_path / "kept" / "baseline.json").read_text()
    assert "### `main`" in (folder / "page.md").read_text()


#: Numbers of modules and of tests that need each client package, in `examples/applications`.
CLIENTS = {
    "openai": (2, 24),
    "instructor": (1, 3),
    "pydantic_ai": (1, 2),
    "langchain_openai": (1, 1),
    "litellm": (1, 1),
}
#: The same in `examples/tools`.
CLIENTS_OF_TOOLS = {"openai": (1, 4), "instructor": (1, 1), "pydantic_ai": (1, 4), "langchain_openai": (1, 4)}


def passes(pytester: pytest.Pytester, example: Path, clients: Mapping[str, tuple[int, int]], *args: str) -> None:
    """Run an example's tests in a new process, since the client packages would slow this one down."""
    pytest.importorskip("pydantic", reason="needs the package pydantic")
    shutil.copytree(example, pytester.path, dirs_exist_ok=True)
    there = [name for name in clients if importlib.util.find_spec(name) is not None]

    result = pytester.runpytest_subprocess(*QUICK, *args)

    skipped = sum(modules for name, (modules, _) in clients.items() if name not in there)
    result.assert_outcomes(passed=sum(clients[name][1] for name in there), skipped=skipped)


@pytest.mark.slow
def test_each_application_s_client_is_answered_from_recordings(pytester: pytest.Pytester) -> None:
    passes(pytester, APPLICATIONS, CLIENTS)


@pytest.mark.skipif(not SLOW, reason="asks the small model: tox -e applications runs it")
def test_each_application_s_client_is_answered_by_the_small_model(pytester: pytest.Pytester) -> None:
    passes(pytester, APPLICATIONS, CLIENTS, "tests", "--jsbench-engine=local")


@pytest.mark.slow
def test_an_application_s_client_calls_two_tools(pytester: pytest.Pytester) -> None:
    passes(pytester, TOOLS, CLIENTS_OF_TOOLS)


def test_recordings_of_examples_contain_no_key_and_are_small() -> None:
    texts = [path.read_text("utf-8") for path in (APPLICATIONS / "tests" / "answers").rglob("*.json")]

    assert len(texts) == 18
    assert not any(re.search(r"(?i)api.?key|authorization|bearer|\bsk-", text) for text in texts)
    assert max(map(len, texts)) < 16_000


@pytest.mark.skipif(not SLOW or importlib.util.find_spec("mypy") is None, reason="takes a minute: tox -e lint runs it")
@pytest.mark.parametrize("example", [APPLICATIONS, TOOLS], ids=lambda path: path.name)
def test_the_applications_are_typed(example: Path) -> None:
    options = ("--strict", "--config-file", str(ROOT / "pyproject.toml"))

    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, sorted(example.rglob("*.py")))],
        cwd=example,
        env={**os.environ, "MYPYPATH": os.pathsep.join([str(example), str(example / "tests")])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout
