"""
Use additional options at every entry point: `python -m tests.support.additional_option FOLDER`.

The options are added to the sources before any other module has imported them: one that an engine gets, as a row of the
table and as a field of the parameters; and one of the whole run, as a row alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

ROW = """
    top_k: Option[int | None] = Option(
        "Number of the likeliest tokens to sample from (default: not sent).",
        "N",
        check=whole(1),
        variants=PerVariant.MULTIPLIED,
        affects=Bearing.ANSWERS,
        recorded=("params.top_k",),
    )
"""
ROW_OF_RUN = """
    haste: Option[int | None] = Option(
        "How hasty the run is (default: not hasty).", "N", check=whole(1), affects=Bearing.TIMES
    )
"""
#: For each module: a line of its source, and what is added before this line.
ADDED = {
    "pytest_jsbench.settings.call_options": ("    seed: Option[int | None] = Option(\n", ROW),
    "pytest_jsbench.settings.options": ("    max_cost: Option[float | None] = Option(\n", ROW_OF_RUN),
    "pytest_jsbench.core.generations": ("    #: Sampling seed.\n", "    top_k: int | None = None\n"),
}
#: Answers with the parameter that arrives at the engine.
ENGINE = """
import json

def answer(request):
    return json.dumps({"top_k": request.params.top_k})
"""
TEST = """
import pytest

@pytest.mark.jsbench(schema={"type": "object"}, top_k=4)
def test_marked(jsbench):
    assert jsbench.generate("any").instance == {"top_k": 4}
    assert jsbench.using(top_k=5).generate("any").instance == {"top_k": 5}
"""
VARIANTS = (
    '[[tool.jsbench.variants]]\nname = "first"\ntop_k = 6\n[[tool.jsbench.variants]]\nname = "second"\ntop_k = 7\n'
)


def add_option() -> None:
    """Load the modules of the options and of the parameters with an additional option."""
    for name, (place, added) in ADDED.items():
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        source = Path(spec.origin).read_text("utf-8")
        assert source.count(place) == 1
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        exec(compile(source.replace(place, added + place), spec.origin, "exec"), module.__dict__)


def of_pytest(config: Path, *arguments: str) -> str:
    """
    Run pytest in this process with a configuration file, and return its output and its errors.

    No other plugin is loaded: pytest-retry, for one, cannot be configured twice in a process.
    """
    import pytest

    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        pytest.main(["-c", str(config), "-p", "pytest_jsbench.plugin", *arguments])
    return output.getvalue()


def of_command(*arguments: str) -> str:
    """Run the command `jsbench` in this process, and return its output."""
    from pytest_jsbench.cli.main import main

    with contextlib.redirect_stdout(io.StringIO()) as output:
        main(arguments)
    return output.getvalue()


def asked_and_answered(folder: Path) -> list[list[Any]]:
    """Return the recorded option and the answers of each variant of the only run in a directory."""
    (file,) = folder.glob("*/records.jsonl")
    header, *records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    answers: dict[str, list[str]] = {}
    for record in records:
        answers.setdefault(record.get("variant", ""), []).append(record["generation"]["text"])
    run = header["run"]
    return [
        [variant.get("variant", ""), variant["params"]["top_k"], *sorted(answers[variant.get("variant", "")])]
        for variant in run.get("variants") or [run]
    ]


def write(folder: Path) -> None:
    """Write what each entry point makes of the option."""
    from pytest_jsbench import evaluate
    from tools import reference

    found: dict[str, Any] = {}
    for name, text in {
        "engine_of_options.py": ENGINE,
        "schemas/case.json": '{"type": "object"}',
        "pytest.ini": "[pytest]\n",
        "ini/pytest.ini": "[pytest]\njsbench_top_k = 3\n",
        "toml/pyproject.toml": VARIANTS,
        "marker/test_marked.py": TEST,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    sys.path.append(str(folder))
    engine = (
        "--jsbench-engine=scripted",
        "--jsbench-engine-option=answers=engine_of_options:answer",
    )
    cases = (*engine, f"--jsbench-dataset={folder / 'schemas'}")
    plain = folder / "pytest.ini"
    runs: dict[str, tuple[Path, tuple[str, ...]]] = {
        "command line": (plain, (*cases, "--jsbench-top-k=2", "--jsbench-haste=3")),
        "ini": (folder / "ini/pytest.ini", cases),
        "TOML": (folder / "toml/pyproject.toml", cases),
        "several values": (plain, (*cases, "--jsbench-top-k=8", "--jsbench-top-k=9")),
        "marker": (plain, (*engine, "--jsbench-top-k=2", str(folder / "marker"))),
    }
    for name, (config, arguments) in runs.items():
        of_pytest(config, f"--jsbench-output={folder / name}", *arguments)
        found[name] = asked_and_answered(folder / name)
    options: dict[str, Any] = {"top_k": 1}
    evaluate(lambda request: json.dumps({"top_k": request.params.top_k}), [{}], output=folder / "keyword", **options)
    found["keyword"] = asked_and_answered(folder / "keyword")
    (file,) = (folder / "command line").glob("*/records.jsonl")
    found["options"] = json.loads(file.read_text("utf-8").splitlines()[0])["run"]["options"]
    found["invalid"] = of_pytest(plain, *cases, "--jsbench-top-k=none")
    found["help"] = of_pytest(plain, "--help")
    found["compare"] = of_command("compare", str(folder / "command line"), str(folder / "keyword"))
    reference.EXAMPLES = {**reference.EXAMPLES, "top_k": "40", "haste": "2"}
    found["docs"] = reference.options()
    (folder / "found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    add_option()
    write(Path(sys.argv[1]))
