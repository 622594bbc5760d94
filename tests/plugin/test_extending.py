"""Test that the package shown in docs/extending.md installs and works as documented."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from pytest_jsbench.cli.engines import KINDS
from pytest_jsbench.cli.main import main
from tests.support.bench import Bench
from tests.support.packages import install

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text("utf-8")
FILES = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", PAGE, flags=re.DOTALL))
(SESSION,) = re.findall(r"^\$ pytest (.*?)```", PAGE, flags=re.DOTALL | re.MULTILINE)
COMMAND, *SHOWN = SESSION.splitlines()


@pytest.fixture
def acme(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Install the package as pip would, and write the page's conftest.py into an empty directory."""
    package = {name: text for name, text in FILES.items() if name != "conftest.py"}
    install(tmp_path / "site", {**package, "acme_jsbench/__init__.py": ""}, monkeypatch)
    bench.write({"conftest.py": FILES["conftest.py"]})
    return bench


def test_the_package_brings_one_of_each_and_the_hooks_are_called(acme: Bench) -> None:
    result = acme.run_only(*shlex.split(COMMAND), "--jsbench-output=out")

    result.assert_outcomes(passed=1, failed=2)
    table = SHOWN.index("$ cat results.csv")
    result.stdout.fnmatch_lines([line for line in SHOWN[:table] if line != "..."])
    assert (acme.path / "results.csv").read_text().splitlines() == SHOWN[table + 1 :]
    assert acme.records()[0]["prompt"]["messages"][0]["content"].startswith("Fill in the form address, as JSON")
    assert acme.run_json()["run"]["prompt"] == "acme"
    arrived = (acme.path / "arrived.txt").read_text().split()
    assert sorted(arrived) == ["forms::address", "forms::age", "forms::complaint"]
    assert (acme.path / "passed.txt").read_text() == "1 of 3\n"


def test_what_the_package_brings_is_listed_and_its_command_called(
    acme: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    def jsbench(*arguments: str, ends: int = 0) -> str:
        try:
            status = main(list(arguments))
        except SystemExit as end:
            status = int(end.code or 0)
        assert status == ends
        return capsys.readouterr().out

    listed = jsbench("engines").splitlines()
    assert any(line.startswith("acme ") for line in listed)
    assert any(line.startswith("acme-cloud ") and "ACME_API_KEY" in line for line in listed)
    brought = {" ".join(line.split()) for line in listed}
    assert "metric filled acme-jsbench 1.0 --jsbench-classify=filled" in brought
    assert "exporter csv acme-jsbench 1.0 --jsbench-export=csv=PATH" in brought
    extensions = json.loads(jsbench("engines", "--json"))["extensions"]
    packages = {
        kind: {re.sub(r".*\(package (.*) .*\)", r"\1", place): name for name, place in places.items()}
        for kind, places in extensions.items()
    }
    assert list(extensions) == list(KINDS)
    assert {kind: names["acme-jsbench"] for kind, names in packages.items() if "acme-jsbench" in names} == {
        **dict.fromkeys(("engine", "dataset", "prompt", "publication"), "acme"),
        "preset": "acme-cloud",
        "classifier": "refusals",
        "metric": "filled",
        "exporter": "csv",
        "command": "forms",
    }
    assert [line.split()[:2] for line in listed if re.match("[a-z]+ acme", line)] == [
        *(["engine", "acme"], ["preset", "acme-cloud"], ["dataset", "acme"], ["prompt", "acme"]),
        ["publication", "acme"],
    ]
    assert "base_url: https://llm.acme.example/v1" in re.sub(r" +", " ", jsbench("engines", "acme-cloud"))
    assert re.search(r" +forms +list the forms that Acme's customers fill in", jsbench("--help"))
    assert jsbench("forms", "--help").startswith("usage: jsbench forms [-h] [NAME ...]")
    assert f"$ jsbench forms age\n{jsbench('forms', 'age')}```" in PAGE
    jsbench("forms", "nothing", ends=1)
    jsbench("forms", "--nothing", ends=2)
    asked = acme.run_only("--jsbench-engine=acme-cloud", "--jsbench-model=m", "--jsbench-limit=1")
    assert "ACME_API_KEY" in asked.stderr.str()


def test_a_preset_is_a_publication_that_the_package_brings(acme: Bench) -> None:
    acme.run_only("--jsbench-engine=acme", "--jsbench-preset=acme", "--jsbench-output=out").assert_outcomes(
        passed=1, failed=2
    )

    assert acme.run_json()["run"]["dataset"]["source"] == "acme"


def test_command_that_fails_to_import_affects_no_other_command(
    acme: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site" / "acme_jsbench" / "commands.py").write_text("import acme\n")

    assert main([]) == 2
    listed = " ".join(capsys.readouterr().err.split())
    assert "forms command 'forms': cannot add acme_jsbench.commands:add_forms (package acme-jsbench 1.0): Mod" in listed
    assert "view view a directory of runs" in listed
    assert main(["forms"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("jsbench: command 'forms': cannot add acme_jsbench.commands:add_forms (package acme-")
    assert message.endswith("ModuleNotFoundError: No module named 'acme'; update that package, or uninstall it\n")
    assert message.count("\n") == 1


def test_what_is_not_asked_for_is_not_imported(acme: Bench) -> None:
    acme.write(
        {
            "answers.json": "{}",
            "test_own.py": "import sys\n\n"
            "def test_own():\n    assert not [name for name in sys.modules if name.startswith('acme_jsbench')]\n",
        }
    )

    acme.run_only("test_own.py").assert_outcomes(passed=1)
    answers = "--jsbench-engine-option=answers=answers.json"
    acme.run_only("test_own.py", "--jsbench-engine=scripted", answers).assert_outcomes(passed=1)


def test_package_that_fails_to_import_is_one_line_before_the_run(acme: Bench, tmp_path: Path) -> None:
    (tmp_path / "site" / "acme_jsbench" / "exporters.py").write_text("import acme\n")

    result = acme.run_only(*shlex.split(COMMAND))

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (shown,) = re.findall(r"^ERROR: .*$", PAGE, flags=re.MULTILINE)
    assert shown in result.errlines


def test_every_group_and_every_hook_is_on_the_page() -> None:
    from pytest_jsbench.plugin import hookspecs

    assert set(re.findall(r"`(pytest_jsbench\.\w+)` \|", PAGE)) == {f"pytest_jsbench.{kind}s" for kind in KINDS}
    hooks = {name for name in vars(hookspecs) if name.startswith("pytest_jsbench")}
    assert set(re.findall(r"^\| `(pytest_jsbench_\w+)\(", PAGE, flags=re.MULTILINE)) == hooks
