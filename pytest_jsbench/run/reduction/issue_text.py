"""Write the result of a reduction with neutral names: files that reproduce the failure, and a text for an issue."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_jsbench.core.files import make_private_folder, private, try_writing
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.text import format_count, json_text, printable
from pytest_jsbench.core.version import __version__
from pytest_jsbench.run.reduction.candidate import Candidate
from pytest_jsbench.run.reduction.reduction import Reduction
from pytest_jsbench.run.reduction.same_failure import ReductionError
from pytest_jsbench.run.reduction.tool_parts import tool_document

#: Names of the files in the directory of a reduction.
SCHEMA, PRIVATE, ISSUE, LABELLED = "reduced.json", "private.json", "issue.md", "labelled"
_SCHEMAS, _INSTANCES = "schemas.jsonl", "instances.jsonl"
#: Start of the names of models that a user has trained, which name the user.
_OWN_MODEL = "ft:"


def reproducing_command(reduction: Reduction, folder: str = "") -> str:
    """Return the line that reproduces the failure with the files in this directory."""
    place = f"{folder}/" if folder else ""
    if reduction.refused_by:
        mode, _, subset = reduction.refused_by.partition(":")
        return shlex.join(["jsbench", "adapt", f"--subset={subset}", f"--mode={mode}", "-v", f"{place}{SCHEMA}"])
    form = reduction.shareable or reduction.smallest
    prompt = () if form.is_prompt_default else reduction.prompt_flags
    source = f"--jsbench-dataset={place}{SCHEMA}"
    if reduction.original.answer is not None:
        source = f"--jsbench-instances={place}{LABELLED}"
    return shlex.join(["pytest", *reduction.flags, *prompt, source])


def issue_text(reduction: Reduction) -> str:
    """Return the text for an issue in Markdown; it needs a shareable form."""
    form = reduction.shareable
    evidence = reduction.shareable_evidence
    assert form is not None
    assert evidence is not None
    model = _shareable_model(reduction.model)
    engine = (
        f"the subset {reduction.refused_by.partition(':')[2]}"
        if reduction.refused_by
        else f"{reduction.engine} {model}"
    )
    seen = "" if reduction.refused_by or form.answer is not None else f" (in {evidence.text})"
    before = format_count(reduction.original.schema_size, "byte")
    smallest = "" if reduction.stopped else ", and no smaller form of it was found to fail"
    what = "schema" if form.offer is None else "case with tools"
    summary = f"This {what} fails{seen}{smallest}. Its names are made up."
    summary += f" pytest-jsbench {__version__} reduced it from {before}."
    lines = [
        f"### {printable(reduction.failure.text)} with {printable(engine)}",
        "",
        summary,
        "",
        *_block(json_text(document_of(form), indent=2)),
    ]
    if form.answer is not None:
        rejects = reduction.failure.reason == "over_constraint"
        what = (
            "rejects this answer, which conforms to the schema" if rejects else "accepts this answer, which violates it"
        )
        lines += [f"The grammar {what}:", "", *_block(json_text(form.answer.value, indent=2))]
        if reduction.failure.is_escaped:
            lines += ['It does so if a name is written with an escape, as `"\\u0061"` for `"a"`.', ""]
    if evidence.message:
        lines += ["Message:", "", *_block(printable(evidence.message, 1000), "text")]
    files = f"`{SCHEMA}`" if form.answer is None else f"`{LABELLED}/{_SCHEMAS}` and `{LABELLED}/{_INSTANCES}`"
    lines += [f"To reproduce, save {files}, and run:", ""]
    if form.answer is not None:
        lines += [
            line
            for name, text in _labelled_files(form, reduction).items()
            for line in (f"`{name}`:", "", *_block(text))
        ]
    lines += _block(reproducing_command(reduction).replace(reduction.model, model), "sh")
    return "\n".join(lines)


def _shareable_model(model: str) -> str:
    return "MODEL" if model.startswith(_OWN_MODEL) else model


def _block(text: str, language: str = "json") -> list[str]:
    return [f"```{language}", text.rstrip("\n"), "```", ""]


def _labelled_files(form: Candidate, reduction: Reduction) -> Mapping[str, str]:
    assert form.answer is not None
    schema = {"schema_id": "reduced", "task": "reduced", "schema": form.schema}
    valid = reduction.failure.reason == "over_constraint"
    answer = {"id": "answer", "schema_id": "reduced", "valid": valid, "data": form.answer.value}
    return {_SCHEMAS: json.dumps(schema, ensure_ascii=False), _INSTANCES: json.dumps(answer, ensure_ascii=False)}


def prepare_folder(folder: Path) -> None:
    """Create the directory of a reduction before any call; raise ReductionError if that fails."""
    with _as_reduction_error(folder):
        make_private_folder(folder)
        try_writing(folder)


@contextmanager
def _as_reduction_error(folder: Path) -> Iterator[None]:
    """Raise an error of the file system in the directory as ReductionError."""
    try:
        yield
    except OSError as error:
        message = f"cannot write to {folder}: {error.strerror or error}; choose a writable directory with --output"
        raise ReductionError(message, found=folder, where="output") from error


def document_of(form: Candidate, messages: Sequence[Message] = ()) -> Any:
    """Return the schema of a form, or its tools with a request, as a file of a dataset has it."""
    return form.schema if form.offer is None else tool_document(form, messages)


def write_files(reduction: Reduction, folder: Path) -> None:
    """
    Write the shareable schema and the text for an issue; without a shareable form, write the schema with the user's
    own names to another file. Files of an earlier reduction are replaced. Raise ReductionError if writing fails.
    """
    with _as_reduction_error(folder):
        for name in (SCHEMA, PRIVATE, ISSUE):
            (folder / name).unlink(missing_ok=True)
        for name, text in _texts_of(reduction).items():
            (folder / name).parent.mkdir(exist_ok=True)
            private(folder / name).write_text(text, encoding="utf-8")


def _texts_of(reduction: Reduction) -> Mapping[str, str]:
    """Return the text of each file of a reduction by its name in the directory."""
    form = reduction.shareable
    if form is None:
        return {PRIVATE: json_text(document_of(reduction.smallest, reduction.messages), indent=2) + "\n"}
    labelled = {} if form.answer is None else _labelled_files(form, reduction)
    return {
        SCHEMA: json_text(document_of(form), indent=2) + "\n",
        ISSUE: issue_text(reduction),
        **{f"{LABELLED}/{name}": f"{text}\n" for name, text in labelled.items()},
    }


def reduction_to_dict(reduction: Reduction) -> dict[str, Any]:
    """
    Return the result as JSON values; `schema`, or `document` if the case offers tools, has neutral names if `shareable`
    is true, and else the user's own.
    """
    form = reduction.smallest if reduction.shareable is None else reduction.shareable
    evidence = reduction.shareable_evidence or reduction.evidence
    return {
        "case": str(reduction.case),
        "failure_type": reduction.failure.failure_type.value,
        "keyword": reduction.failure.keyword,
        "reason": reduction.failure.reason,
        "engine": reduction.engine,
        "model": reduction.model,
        "subset": reduction.refused_by.partition(":")[2] or None,
        "bytes_before": reduction.original.schema_size,
        "bytes_after": reduction.smallest.schema_size,
        "calls": reduction.calls,
        "baseline": {"failures": reduction.baseline.failures, "others": reduction.baseline.others},
        "evidence": {"failures": evidence.failures, "others": evidence.others},
        "message": evidence.message,
        "shareable": reduction.shareable is not None,
        "schema": form.schema,
        **_tools_to_dict(reduction, form),
        **({} if form.answer is None else {"answer": form.answer.value}),
        "stopped": reduction.stopped,
        "difference": reduction.difference,
        "again": reproducing_command(reduction),
    }


def _tools_to_dict(reduction: Reduction, form: Candidate) -> dict[str, Any]:
    """Return the numbers of tools and the document of a case with tools; empty for other cases."""
    before, after = reduction.original.offer, reduction.smallest.offer
    if before is None or after is None:
        return {}
    messages = () if reduction.shareable is not None else reduction.messages
    return {
        "tools_before": len(before.tools),
        "tools_after": len(after.tools),
        "document": document_of(form, messages),
    }
