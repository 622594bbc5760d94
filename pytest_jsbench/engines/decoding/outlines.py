"""The engine `outlines`: the package outlines-core over the embedded model."""

from __future__ import annotations

from pytest_jsbench.engines.decoding.factories import DecodingFactory
from pytest_jsbench.engines.decoding.masked import build
from pytest_jsbench.engines.decoding.settings import LibraryPackage

FACTORY = DecodingFactory(
    LibraryPackage(
        library="outlines",
        module="outlines_core",
        distribution="outlines-core",
        minimum=(0, 2),
        beside=("filelock",),
    ),
    build,
    streaming=False,
    greedy=True,
)
