"""Helpers to render pages of runs and to read their content."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import re
from typing import Any

import pytest

from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import Record
from pytest_jsbench.reports.html.report import render
from tests.support import examples

needs_jinja2 = pytest.mark.skipif(importlib.util.find_spec("jinja2") is None, reason="needs the extra report")


def page(*records: Record, **metadata: Any) -> str:
    run = examples.run(*records, **metadata)
    return "".join(render(run, summarize(run)))


def unpacked(text: str, name: str) -> Any:
    (packed,) = re.findall(f'id="{name}">([A-Za-z0-9+/=]*)</script>', text)
    return json.loads(gzip.decompress(base64.b64decode(packed)))
