"""Find the sources of schemas in a project: Pydantic models, schema files, OpenAPI documents, tool definitions."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import FileReader, inside, parse_json
from pytest_jsbench.core.text import counted, described, printable
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.folders import has_tool_schemas
from pytest_jsbench.datasets.registry import BUILTIN, open_dataset

#: directories without sources of the project itself
_LEFT_OUT = {"venv", "build", "dist", "docs", "tests"}
_MOST_FILES = 5_000
_LARGEST = 2_000_000
_YAML = (".yaml", ".yml")
_API = "OpenAPI document"
#: FastAPI's own models, never the subject of a first test
_OF_FASTAPI = "ValidationError"
_REFERENCE = re.compile(r"[^/#]+(?=#?$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of schemas, as `--jsbench-dataset` names it, and the case for a first test."""

    dataset: str
    words: str
    cases: int
    #: lines that a test needs before its own, such as imports
    imports: str
    #: Python expression of the schema
    schema: str
    #: name of the case, for the test's name and prompt
    test: str
    #: type of each field, such as `str` or `integer`, for a sample text
    fields: Mapping[str, str] = field(default_factory=dict)
    #: the extra that reads it
    extra: str | None = None
    #: the directory from which its modules are imported
    python_path: str | None = None


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
            content = _read(root, path)
            models = list(_models(root, path, content)) if isinstance(content, ast.Module) else []
        except SyntaxError as error:
            fault = f"{error.msg} (line {error.lineno})"
        except (RecursionError, MemoryError):  # of the parser, or of a walk over what a generator wrote
            fault = "it is nested too deeply"
        except (JSBenchError, OSError, ValueError) as error:
            fault = str(error) if isinstance(error, JSBenchError) else described(error)
        else:
            if isinstance(content, ast.Module):
                sources += models
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
    """Yield the files of the project that may contain schemas, in the order of their names."""
    count = 0
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(name for name in inner if name not in _LEFT_OUT and not has_tool_schemas(Path(folder) / name))
        for name in sorted(names):
            path = Path(folder) / name
            # no link to nowhere, and none out of the project
            is_source = path.suffix in {".py", ".json", *_YAML} and path.is_file() and inside(root, path)
            if is_source and path.stat().st_size <= _LARGEST:
                count += 1
                if count > _MOST_FILES:
                    return
                yield path


def _read(root: Path, path: Path) -> object:
    """Return the tree of a module, or the document."""
    reader = FileReader(root=root, largest=_LARGEST)
    if path.suffix == ".py":
        return ast.parse(reader.read_bytes(path))
    if path.suffix == ".json":
        return parse_json(reader.read_bytes(path))
    from pytest_jsbench.datasets.yaml_text import parse_yaml, require_yaml

    require_yaml("it")
    return parse_yaml(reader.read_text(path))


def _kind(document: object) -> str | None:
    """Return the kind of a document by its outermost keys; None if it has no schemas."""
    from pytest_jsbench.datasets.sources.openapi import is_openapi
    from pytest_jsbench.datasets.sources.tools import defines_tools

    if is_openapi(document):
        return _API
    if defines_tools(document):
        return "tool definitions"
    named = isinstance(document, Mapping) and "json-schema.org" in str(document.get("$schema"))
    shaped = isinstance(document, Mapping) and document.keys() >= {"type", "properties"}
    return "a schema file" if named or shaped else None


def _opened(root: Path, path: Path, words: str) -> Iterator[Source]:
    """Yield the source at a path, if it can be read as a dataset, with the case at the top of its references."""
    place = path.relative_to(root).as_posix()
    try:
        dataset = open_dataset(Selection(source=str(path)))
        cases = [case for key in dataset.keys() if isinstance(case := dataset.case(key), Case)]
    except JSBenchError:
        return
    if cases:
        own = [case for case in cases if _OF_FASTAPI not in case.key.id] or cases
        top = own[_top([case.key.id for case in own], [_references(case.schema) for case in own])]
        yield Source(
            # a path that would be read as something else begins with a dot
            dataset=f"./{place}" if place == BUILTIN or place.startswith(("~", "-")) else place,
            words=f"{words}, {counted(len(cases), 'schema')}",
            cases=len(cases),
            imports=f"from pathlib import Path\n\nimport pytest\n\nfrom pytest_jsbench import Dataset\n\n"
            f"CASES = Dataset.load(Path(__file__).resolve().parents[1] / {place!r})",
            schema=f"CASES[{str(top.key)!r}].schema",
            test=top.key.id,
            fields=_types(top.schema),
            extra="yaml" if any(file.suffix in _YAML for file in (path, *path.rglob("*"))) else None,
        )


def _references(schema: object) -> set[str]:
    """Return the last part of each reference of a schema, which is the name of another case."""
    names: set[str] = set()
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            found = _REFERENCE.search(value["$ref"]) if isinstance(value.get("$ref"), str) else None
            names |= {found[0], found[0].split(".")[0]} if found else set()
            # definitions belong to the schema only if they are referenced
            waiting += [each for name, each in value.items() if name not in ("$defs", "definitions", "components")]
        elif isinstance(value, list):
            waiting += value
    return names


def _types(schema: object) -> dict[str, str]:
    """Return the type of each property that has a plain one."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    types = {name: each.get("type") for name, each in properties.items() if isinstance(each, Mapping)}
    return {name: kind for name, kind in types.items() if isinstance(kind, str)}


def _top(names: Sequence[str], references: Sequence[set[str]]) -> int:
    """Return the number of the first name that no other refers to, of those that reach most of the others."""
    graph = {name: each & {*names} - {name} for name, each in zip(names, references, strict=True)}
    parts = set[str]().union(*graph.values())
    reached = {name: len(_reached(graph, name)) for name in graph}
    roots = [name for name in names if name not in parts] or list(names)
    return names.index(max(roots, key=lambda name: reached[name]))


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return the names that a name reaches by references."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached - {start}


def _models(root: Path, path: Path, tree: ast.Module) -> Iterator[Source]:
    """Yield the Pydantic models that a module defines, by its text."""
    models: dict[str, ast.ClassDef] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
            if "BaseModel" in bases or bases & models.keys():
                models[node.name] = node
    parts = [*path.relative_to(root).with_suffix("").parts]
    module = ".".join(part for n, part in enumerate(parts) if part != "__init__" and (n, part) != (0, "src"))
    # others cannot be imported by a name
    if models and all(part.isidentifier() and not iskeyword(part) for part in module.split(".")):
        names = list(models)
        top = names[_top(names, [_names_in(node) for node in models.values()])]
        yield Source(
            dataset=f"{module}:*",
            words=counted(len(models), "Pydantic model"),
            cases=len(models),
            imports=f"import pytest\n\nfrom {module} import {top}",
            schema=top,
            test=top,
            fields=_annotations(models[top]),
            extra="pydantic",
            python_path="src" if parts[0] == "src" else ".",
        )


def _names_in(model: ast.ClassDef) -> set[str]:
    """Return the names in a model's bases and annotations, also in those that are text."""
    annotations = [node.annotation for node in model.body if isinstance(node, ast.AnnAssign)]
    names: set[str] = set()
    for part in (*model.bases, *annotations):
        for node in ast.walk(part):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= {*re.findall(r"\w+", node.value)}
    return names


def _annotations(model: ast.ClassDef) -> dict[str, str]:
    """Return the annotation of each field that has a plain one."""
    return {
        node.target.id: node.annotation.id
        for node in model.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.annotation, ast.Name)
    }
