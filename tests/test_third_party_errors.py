"""Test that an error in third-party code is reported in one line with the name of the package."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pytest_jsbench.cli.main import main
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.errors import DatasetError, EngineError, PromptError
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.engines import registry
from pytest_jsbench.engines.base import EngineConfig
from pytest_jsbench.engines.engine_secrets import build
from pytest_jsbench.prompts.named import find_template
from tests.support.packages import install

RAISED = ("SystemExit(0)", "RecursionError('deep')", "ImportError('gone')", "KeyError('x')")


def bring(site: Path, kind: str, code: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a package with one entry point of the kind, and return the entry point's name."""
    module = f"third_{kind}_{abs(hash(code)):x}"
    points = f'[project.entry-points."pytest_jsbench.{kind}s"]\n{module} = "{module}:thing"\n'
    project = f'[project]\nname = "acme"\nversion = "1.0"\n{points}'
    install(site, {"pyproject.toml": project, f"{module}.py": code}, monkeypatch)
    return module


@pytest.mark.parametrize("raised", RAISED)
def test_engine_that_raises_while_built_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str
) -> None:
    name = bring(tmp_path, "engine", f"def thing(config):\n    raise {raised}\n", monkeypatch)

    with pytest.raises(EngineError, match=f"engine '{name}' cannot be built: {raised.partition('(')[0]}"):
        build(registry.find(name), EngineConfig(name=name))


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("step", ["open", "keys", "case"])
def test_dataset_that_raises_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str, step: str
) -> None:
    lines = ["from pytest_jsbench.core.cases import CaseKey", "def fail(step):", f"    if step == '{step}':"]
    lines += [f"        raise {raised}", "class thing:", "    def __init__(self, selection): fail('open')"]
    lines += ["    def keys(self):", "        fail('keys')", "        return [CaseKey(task='t', id='a')]"]
    lines += ["    def case(self, key):", "        fail('case')"]
    name = bring(tmp_path, "dataset", "\n".join(lines), monkeypatch)

    with pytest.raises(DatasetError) as caught:
        open_dataset(Selection(source=name)).case(CaseKey(task="t", id="a"))

    assert f"dataset '{name}'" in str(caught.value)
    assert "package acme 1.0" in str(caught.value)
    assert raised.partition("(")[0] in str(caught.value)


def test_dataset_that_gives_a_wrong_type_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "class thing:\n    def __init__(self, s): pass\n    def keys(self): return [7]\n    def case(self, key): pass\n"
    )
    name = bring(tmp_path, "dataset", code, monkeypatch)

    with pytest.raises(DatasetError, match=r"lists a number; expected a CaseKey|lists .*; expected a CaseKey"):
        open_dataset(Selection(source=name))


@pytest.mark.parametrize("raised", RAISED)
def test_prompt_function_that_raises_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: str) -> None:
    name = bring(tmp_path, "prompt", f"def thing(case):\n    raise {raised}\n", monkeypatch)

    with pytest.raises(PromptError, match=f"prompt {name} raised {raised.partition('(')[0]}"):
        find_template(name).render(Case(key=CaseKey(task="t", id="a"), schema={}))


@pytest.mark.parametrize(
    ("kind", "code"), [("preset", "raise ValueError('x')"), ("preset", "thing = 3"), ("engine", "raise SystemExit")]
)
def test_broken_package_is_named_and_hides_no_other_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, code: str
) -> None:
    name = bring(tmp_path, kind, code, monkeypatch)
    out = io.StringIO()

    assert main(["engines"], out=out) == 0

    assert "openai" in out.getvalue()
    assert f"warning: {kind} '{name}': " in out.getvalue()
    assert main(["engines", "openai"], out=io.StringIO()) == 0


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("commands.add_parser(NAME, help='x')", "does not call parser.set_defaults(command=FUNCTION)"),
        ("commands.add_parser(NAME).set_defaults(command=3)", "does not call parser.set_defaults(command=FUNCTION)"),
        ("commands.add_parser(NAME).set_defaults(command=lambda *_: 1 / 0)", "raised ZeroDivisionError"),
        ("commands.add_parser(NAME).set_defaults(command=lambda *_: exit(0))", "raised SystemExit"),
    ],
)
def test_broken_command_is_one_line_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], body: str, words: str
) -> None:
    name = bring(tmp_path, "command", f"NAME = __name__\ndef thing(commands):\n    {body}\n", monkeypatch)

    assert main([name]) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert f"command '{name}': {name}:thing (package acme 1.0)" in line
    assert words in line
