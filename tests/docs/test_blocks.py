"""Run every code block of the pages, unless its comment has a reason not to."""

from __future__ import annotations

import configparser
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pytest_jsbench import __version__
from pytest_jsbench.cli import main
from pytest_jsbench.settings.options import OPTIONS
from tests.support.bench import WITHOUT_SLOW_PLUGINS
from tests.support.page_blocks import PAGES, RUNS, Block, blocks_of, words_of
from tools.reference import ROOT

for needed in ("yaml", "pydantic", "jinja2", "openai", "genai_prices", "pyarrow.parquet"):
    pytest.importorskip(needed, reason="needs the extras")

SLOW = "JSBENCH_SLOW_EXAMPLES" in os.environ
QUICK = ("-p", "no:randomly", "-p", "no:benchmark", *WITHOUT_SLOW_PLUGINS)
#: Values for the placeholders in commands.
PLACEHOLDERS = {
    "ANOTHER": "gpt-5.4",
    "VENDOR/MODEL": "gpt-5.4-mini",
    "MODEL": "gpt-5.4-mini",
    "<run id>": RUNS[0],
    "<one>": RUNS[0],
    "<another>": RUNS[1],
    "<third>": RUNS[2],
}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
FLAGS = {option.flag for option in OPTIONS}
LANGUAGES = {"bash", "console", "python", "ini", "toml", "yaml", "json", "jinja", "mermaid", "text"}


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_of_a_page_work(page: Path, folder: Path, pytester: pytest.Pytester, stand_ins: None) -> None:
    blocks = blocks_of(page)
    assert {block.language for block in blocks} <= LANGUAGES
    reader = Reader(pytester)
    for block in blocks:
        try:
            reader.check(block)
            if block.not_run is None:
                reader.run(block)
        except BaseException as error:
            error.add_note(f"{block}\n{block.text}")
            raise


@pytest.mark.skipif(not SLOW, reason="takes minutes: tox -e docs runs it")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_slow_blocks_of_a_page_work_with_the_real_model(page: Path, folder: Path, pytester: pytest.Pytester) -> None:
    for block in blocks_of(page):
        for program, *arguments in map(shlex.split, block.commands if block.slow else []):
            if program == "pytest":
                result = pytester.runpytest_subprocess(*{**dict.fromkeys(arguments), "-v": None}, "-p", "no:randomly")
                ended = set(re.findall(r"^(jsbench::\S+ (?:PASSED|FAILED))", result.stdout.str(), flags=re.MULTILINE))
                assert ended
                assert set(re.findall(r"^(jsbench::\S+ (?:PASSED|FAILED))", block.text, flags=re.MULTILINE)) <= ended


def test_every_kind_of_source_has_a_command() -> None:
    shown = "".join(block.text for block in blocks_of(ROOT / "docs" / "datasets.md") if block.language == "console")
    named = set(re.findall(r"--jsbench-dataset='?([^' \n]+)", shown))

    assert named == {
        *("api.json", "shop:*", "shop:Order", "tools", "schemas", "schemas/invoice.json", "schemas/**/*.yaml"),
        *("rows.jsonl", "rows.parquet", "functions.json"),
    }


def test_blocks_that_are_not_run_have_a_reason() -> None:
    reasons = [block.not_run for page in PAGES for block in blocks_of(page) if block.not_run is not None]

    assert all(reason and len(reason) > 5 for reason in reasons)


class Reader:
    """Runs the blocks of a page as a reader would."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester

    def check(self, block: Block) -> None:
        """Check that everything that a block names exists, whether it is run or not."""
        assert set(re.findall(r"--jsbench-[a-z-]+", block.text)) <= FLAGS
        for extras in re.findall(r"'(?:pytest-jsbench|\.|\./pytest_jsbench\S+\.whl)\[([a-z,]+)\]'", block.text):
            assert set(extras.split(",")) <= set(EXTRAS)
        if block.language == "yaml":
            assert re.search(r"pip install .*\bpytest-jsbench", block.text) is None, (
                "a fresh machine finds it on no index"
            )
        assert set(re.findall(r"pytest_jsbench-([\d.]+)-py3", block.text)) <= {__version__}
        if block.language in {"bash", "console"}:
            for words in map(shlex.split, map(with_values, block.commands)):
                if words[0] == "jsbench":
                    main._parser().parse_args(words[1:])
        elif block.language == "python":
            compile(block.text, str(block), "exec")
            for line in re.findall(r"^from pytest_jsbench.*", block.text, flags=re.MULTILINE):
                exec(compile(line, str(block), "exec"), {}) if not line.endswith("(") else None
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "yaml":
            import yaml

            yaml.safe_load(block.text)
            for command in re.findall(r"run: jsbench (.*)", block.text):
                main._parser().parse_args(shlex.split(command))
        elif block.language == "ini":
            _check_ini(block.text)

    def run(self, block: Block) -> None:
        """Run the block."""
        if block.language == "python":
            exec(compile(block.text, str(block), "exec"), {"__name__": f"{Path(block.page).stem}_{block.line}"})
        elif block.language in {"bash", "console"}:
            for command in block.commands:
                self._run(command, block)

    def _run(self, command: str, block: Block) -> None:
        program, *arguments = words_of(with_values(command))
        if program == "pytest" and block.language == "console":
            self._collect(arguments, block)
        elif program == "pytest":
            self._pytest(arguments)
        elif program == "jsbench":
            self._jsbench(arguments, block)
        elif program == "python":
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        else:
            assert program in {"pip", "git", "python3", ".", "export"}, f"{program}: needs a reason why it is not run"

    def _pytest(self, arguments: list[str]) -> None:
        result = self._pytester.runpytest_inprocess(*self._limit(arguments), *QUICK, "--tb=no")
        own = arguments[:1] == ["tests"]
        assert result.ret in {pytest.ExitCode.OK, *([] if own else [pytest.ExitCode.TESTS_FAILED])}
        assert "errors" not in result.parseoutcomes()
        assert not re.search(r"^failures .*api_error", result.stdout.str(), flags=re.MULTILINE)

    def _collect(self, arguments: list[str], block: Block) -> None:
        shown = re.findall(r"^(?:FAILED )?(jsbench::\S+)", block.output, flags=re.MULTILINE)
        asked = [argument for argument in arguments if argument.startswith("--jsbench")]
        result = self._pytester.runpytest_inprocess(*asked, "--collect-only", "-q", *QUICK)
        assert result.ret == pytest.ExitCode.OK
        collected = [line for line in result.outlines if line.startswith("jsbench::")]
        assert shown
        assert collected == shown if "--collect-only" in arguments else set(shown) <= set(collected)

    def _jsbench(self, arguments: list[str], block: Block) -> None:
        out = io.StringIO()
        status = main.main(arguments, out=out)
        assert status in {0, 1}
        if block.language == "console":
            assert out.getvalue() == block.output

    def _limit(self, arguments: list[str]) -> list[str]:
        """
        Return the arguments without worker processes, which stand-ins do not reach, and set a small
        limit of cases.
        """
        given = [one for n, one in enumerate(arguments) if one != "-n" and arguments[n - 1 : n] != ["-n"]]
        named = any(one.startswith("jsbench::") or one in {"-m", "-k"} for one in given)
        (self._pytester.path / "pytest.ini").write_text("[pytest]\n" + ("" if named else "jsbench_limit = 1\n"))
        return given


def with_values(command: str) -> str:
    """Return the command with values for its placeholders."""
    for placeholder, value in PLACEHOLDERS.items():
        command = command.replace(placeholder, value)
    return command


def _check_ini(text: str) -> None:
    parser = configparser.ConfigParser()
    parser.read_string(text)
    known = {option.dest: option for option in OPTIONS}
    for name, value in parser["pytest"].items():
        known[name].of_text(value)
