"""The engine `xgrammar`: the package xgrammar over the embedded model."""

from __future__ import annotations

from pytest_jsbench.engines.decoding.factories import DecodingFactory
from pytest_jsbench.engines.decoding.masked import build
from pytest_jsbench.engines.decoding.settings import LibraryPackage

FACTORY = DecodingFactory(
    LibraryPackage(
        library="xgrammar",
        module="xgrammar",
        distribution="xgrammar",
        minimum=(0, 2),
        beside=("filelock",),
    ),
    build,
    streaming=False,
    greedy=True,
)
