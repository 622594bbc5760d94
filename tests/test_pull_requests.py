"""Test the action, the component of GitLab and the hook: their scripts are run, and their files checked by schemas."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench import WITHOUT_SLOW_PLUGINS
from tests.support.commands import shown
from tests.support.page_blocks import blocks_of
from tools.reference import ROOT

yaml = pytest.importorskip("yaml", reason="needs the package pyyaml")
pytestmark = [
    pytest.mark.usefixtures("session_modules", "not_a_worker"),
    pytest.mark.skipif(not (ROOT / "action.yml").exists(), reason="needs a whole checkout"),
    pytest.mark.skipif(sys.platform == "win32", reason="the scripts run in bash"),
]

QUICK = ("-p", "no:randomly", "-p", "no:cacheprovider", *WITHOUT_SLOW_PLUGINS)
#: Name of a file, and an answer, that tries to mention people and to be markup.
INJECTED = "@everyone <img src=x> [a](http://evil) `|`"


def action() -> dict[str, Any]:
    value: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    return value


def component() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of the component of GitLab, and its only job."""
    head, jobs = yaml.safe_load_all((ROOT / "templates" / "jsbench.yml").read_text("utf-8"))
    (job,) = jobs.values()
    return head["spec"]["inputs"], job


class Runner:
    """Runs steps of the action in a directory, as a runner of GitHub does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.program("gh", "exit 1")
        self.temp = folder / "temp"
        (self.temp / "jsbench").mkdir(parents=True)

    def program(self, name: str, script: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def step(self, name: str, **environment: str) -> str:
        """Run the script of the step with this name; return its output."""
        (found,) = (one["run"] for one in action()["runs"]["steps"] if one.get("name") == name)
        places = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary.md"}
        return self.bash(
            found,
            RUNNER_TEMP=str(self.temp),
            GITHUB_REPOSITORY="us/app",
            **{variable: str(self.folder / name) for variable, name in places.items()},
            **environment,
        )

    def run_suite(self, **environment: str) -> str:
        return self.step(
            "Run the suite, or merge the shards",
            **{"SUITE": "", "SHARDS": "", "BASELINE": "", "PYTEST_ADDOPTS": " ".join(QUICK), **environment},
        )

    def bash(self, script: str, **environment: str) -> str:
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        ended = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script],
            cwd=self.folder,
            env={**os.environ, "PATH": path, **environment},
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    @property
    def outputs(self) -> dict[str, str]:
        """Outputs of the steps so far."""
        return dict(line.split("=", 1) for line in (self.folder / "output").read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def write_suite(folder: Path) -> str:
    """Write six schemas, one with a hostile name, and answers; return the suite's options."""
    (folder / "schemas").mkdir()
    for name in (*"abcdef", INJECTED.replace("/", "_")):
        (folder / "schemas" / f"{name}.json").write_text('{"type": "integer"}')
    (folder / "answers.json").write_text(json.dumps({"*": {"text": INJECTED}}))
    return "--jsbench-engine=scripted --jsbench-engine-option=answers=answers.json --jsbench-dataset=schemas"


@pytest.mark.slow
def test_suite_is_run_kept_and_compared_with_the_baseline(pytester: pytest.Pytester) -> None:
    runner = Runner(pytester.path)
    suite = write_suite(runner.folder)
    (runner.folder / "good.json").write_text('{"*": {"instance": 7}}')
    good = suite.replace("answers.json", "good.json").split()
    pytester.runpytest_inprocess(*good, "--jsbench-output=earlier", *QUICK)
    (runner.temp / "jsbench" / "gate-baseline").mkdir()
    before = runner.temp / "jsbench" / "gate-baseline" / "baseline.json"
    shown("baseline", runner.folder / "earlier", "-o", before)

    gates = "n>=1\n\nbaseline.difference>=-0.1\n"
    said = runner.run_suite(SUITE=suite, GATES=gates, NAME="gate")

    ran = runner.outputs
    assert ran["status"] == "1", said
    assert ran["before"] == str(before)
    assert (runner.temp / "jsbench" / "baseline.json").exists()
    link = "https://github.com/us/app/actions/runs/1/artifacts/2"
    runner.step("Compare", NAME="gate", BEFORE=ran["before"], RUNS=ran["runs"], LINK=link)
    comment = (runner.temp / "jsbench" / "comment.md").read_text()
    assert (runner.folder / "summary.md").read_text().endswith(comment)
    assert comment.startswith("<!-- jsbench:gate -->\n### jsbench: `after`\n")
    assert "**worse, by more than chance**: `after` against `before`" in comment
    assert f"[Files of this run]({link})" in comment
    assert "**FAILED**: `1 of 2 gates are not met: baseline.difference>=-0.1`" in comment
    assert "@everyone" in comment
    outside = re.sub(r"(`+).+?\1(?!`)", "", comment)  # what is not in a code span
    assert not re.search(r"everyone|<img|evil", outside)


@pytest.mark.slow
def test_shards_are_merged_without_a_call_and_need_no_baseline(pytester: pytest.Pytester) -> None:
    runner = Runner(pytester.path)
    suite = write_suite(runner.folder).split()
    for shard in ("1/2", "2/2"):
        options = (*suite, f"--jsbench-shard={shard}", "--jsbench-min-pass-rate=0", f"--jsbench-output=shards/{shard}")
        pytester.runpytest_inprocess(*options, *QUICK)

    gates = "pass_rate<=0\nbaseline.difference>=0"
    runner.run_suite(SHARDS="shards/*/*", GATES=gates, NAME="all")

    assert runner.outputs["status"] == "0"
    assert runner.outputs["before"] == ""
    runner.step("Compare", NAME="all", BEFORE="", RUNS=runner.outputs["runs"], LINK="")
    comment = (runner.temp / "jsbench" / "comment.md").read_text()
    assert "| `after` | 0.000 (0.000 to " in comment
    assert "by more than chance**" not in comment


def test_baseline_is_that_of_the_newest_run_which_has_one(runner: Runner) -> None:
    calls = runner.folder / "calls"
    runner.program(
        "gh", f'echo "$*" >> {calls}\ncase "$2-$3" in list-*) printf "9\\n8\\n7\\n" ;; download-9) exit 1 ;; esac'
    )
    kept = runner.temp / "jsbench" / "gate-baseline"
    kept.mkdir()
    (kept / "baseline.json").touch()

    said = runner.step("Get the baseline", ARTIFACT="gate-baseline", BRANCH="main", GITHUB_WORKFLOW="w", GH_TOKEN="t")

    _, *downloads = calls.read_text().splitlines()
    assert [line.split()[2] for line in downloads] == ["9", "8"]
    assert said == ""
    (kept / "baseline.json").unlink()
    runner.program("gh", "exit 1")
    said = runner.step("Get the baseline", ARTIFACT="gate-baseline", BRANCH="main", GITHUB_WORKFLOW="w", GH_TOKEN="t")
    assert said.startswith("::notice title=jsbench::no earlier run of main to compare with")


def test_pull_request_of_a_fork_gets_a_notice(runner: Runner) -> None:
    said = runner.step("Create or update the comment", FORK="true", GITHUB_TOKEN="")

    assert said.startswith("::notice title=jsbench::a pull request of a fork has no token for comments")


def test_no_script_of_the_action_contains_an_expression() -> None:
    scripts = [step["run"] for step in action()["runs"]["steps"] if "run" in step]

    assert len(scripts) == 6
    assert [script for script in scripts if "${{" in script] == []
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert used == set(action()["inputs"])


@pytest.mark.slow
def test_job_of_gitlab_runs_the_suite_and_compares(runner: Runner) -> None:
    inputs, job = component()
    suite = write_suite(runner.folder)
    values = {name: str(one.get("default", "")) for name, one in inputs.items()} | {"suite": suite}
    variables = {
        name: re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: values[found[1]], text)
        for name, text in job["variables"].items()
    }
    fetch = job["before_script"][-1]
    assert "no earlier run of main" in runner.bash(
        fetch, **{**variables, "BASELINE": "http://127.0.0.1:9/"}, CI_JOB_TOKEN="t", CI_DEFAULT_BRANCH="main"
    )

    *script, end = job["script"]
    said = runner.bash(
        "\n".join([*script, "echo status $status"]), **variables, CI_JOB_URL="https://gitlab.com/us/app/-/jobs/7"
    )

    assert end == "exit $status"
    assert said.splitlines()[-1] == "status 0"
    assert "[Files of this run](https://gitlab.com/us/app/-/jobs/7/artifacts/browse)" in said
    assert (runner.folder / "runs" / "baseline.json").exists()


def conforms(schema: str, text: str, folder: Path) -> bool:
    """Return whether a YAML file with this text conforms to the schema of check-jsonschema with this name."""
    checks: Any = pytest.importorskip("check_jsonschema", reason="needs the dependency group lint")
    (folder / "file.yml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        checks.main(["--builtin-schema", f"vendor.{schema}", str(folder / "file.yml")])
    return ended.value.code == 0


def test_workflows_and_include_of_the_page_conform_and_name_inputs_that_exist(tmp_path: Path) -> None:
    blocks = [block.text for block in blocks_of(ROOT / "docs" / "pull-requests.md") if block.language == "yaml"]
    github, gitlab, _ = blocks

    assert conforms("github-workflows", github, tmp_path)
    assert conforms("gitlab-ci", gitlab, tmp_path)
    jobs = yaml.safe_load(github)["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    given = {name for step in steps if "pytest-jsbench@" in step["uses"] for name in step["with"]}
    assert given <= set(action()["inputs"])
    assert [name for name, job in jobs.items() if "write" in job.get("permissions", {}).values()] == ["report"]
    (included,) = yaml.safe_load(gitlab)["include"]
    assert set(included["inputs"]) <= set(component()[0])


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("github-actions", "action.yml"),
        ("github-workflows", ".github/workflows/release.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/idea.yml"),
        ("gitlab-ci", "templates/jsbench.yml"),
    ],
)
def test_file_conforms_to_its_schema(schema: str, path: str, tmp_path: Path) -> None:
    text = (ROOT / path).read_text("utf-8").rpartition("\n---\n")[2]

    assert conforms(schema, text, tmp_path)


def test_hook_runs_a_command_that_exists() -> None:
    from pytest_jsbench.cli.main import _parser

    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))

    arguments = _parser().parse_args([*hook["entry"].split()[1:], *hook["args"], "schemas/a.json"])
    assert arguments.provider == "openai"
    assert re.search(hook["files"], "app/schemas/a.json")
