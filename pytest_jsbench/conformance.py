"""An answer that an application already has, held against its schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pytest_jsbench import typeschemas
from pytest_jsbench.contracts import Contract, SchemaSource
from pytest_jsbench.errors import ContractError
from pytest_jsbench.failures import verdict_text
from pytest_jsbench.verdicts import JudgePolicy, judge

_DEFAULT_POLICY = JudgePolicy()


def assert_conforms(schema: SchemaSource, answer: object, *, policy: JudgePolicy = _DEFAULT_POLICY) -> Any:
    """
    Fail with the judge's message unless the answer passes; returns its JSON value.

    The schema is a JSON Schema, a Pydantic model, dataclass or TypedDict, or the path of a schema file; the answer is
    text (or bytes) as a model gave it, or any other value as what it is in JSON.
    """
    __tracebackhide__ = True
    contract, text = Contract.of(schema, folder=Path.cwd()), _text(answer)
    verdict = judge(contract.schema, text, policy=policy)
    if not verdict.passed:
        raise AssertionError(verdict_text(verdict, text))
    return verdict.instance


def _text(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    if isinstance(answer, bytes | bytearray):
        return bytes(answer).decode("utf-8", "backslashreplace")
    if typeschemas.is_described(type(answer)):
        return typeschemas.to_json(answer)
    try:
        return json.dumps(answer, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        message = (
            f"the answer, a {typeschemas.name_of(type(answer))}, is no JSON value: {error}; expected text, bytes, "
            "an object of a Pydantic model, dataclass or TypedDict, or what json.dumps takes"
        )
        raise ContractError(message) from error
