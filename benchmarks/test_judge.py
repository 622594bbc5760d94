"""
Measure the cost of a verdict, one round for each judged answer, so that the table shows their distribution.

The quantiles are in `extra_info`, in milliseconds.
"""

from __future__ import annotations

import functools
import gc
import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.answers import SCHEMAS, Answer, builtin_answers, labelled_answers, real_schemas
from benchmarks.ways import RS_ONLY, WAYS, Way
from pytest_jsbench.metrics.statistics import Distribution
from pytest_jsbench.verdicts import Judge
from pytest_jsbench.verdicts.in_process import InProcessJudge
from tests.support.public_data import needs_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SOURCES = {"builtin": builtin_answers, "labelled": labelled_answers}

needs_schemas = pytest.mark.skipif(not SCHEMAS.is_dir(), reason=f"the public benchmark is not at {SCHEMAS}")


@functools.cache
def answers_of(source: str) -> Sequence[Answer]:
    return tuple(SOURCES[source]())


@pytest.fixture(params=["builtin", pytest.param("labelled", marks=needs_labels)])
def source(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    way = WAYS[request.param]()
    yield way
    way.close()


@pytest.fixture(scope="module")
def schemas() -> Sequence[dict[str, Any]]:
    return tuple(real_schemas())


def measure(benchmark: Any, group: str, rounds: int, works: Iterable[Callable[[], object]]) -> None:
    """Time each piece of work once, as one row of the table."""
    waiting = iter(works)
    benchmark.group = group
    gc.collect()
    gc.freeze()  # exclude the benchmark's own objects from garbage collection
    benchmark.pedantic(lambda work: work(), setup=lambda: ((next(waiting),), {}), rounds=rounds, iterations=1)
    gc.unfreeze()
    if benchmark.stats is None:
        return  # set by --benchmark-disable
    spread = Distribution.of(seconds := benchmark.stats.stats.data)
    for name in ("p50", "p95", "p99", "max"):
        benchmark.extra_info[f"{name}_ms"] = round(getattr(spread, name) * 1000, 3)
    benchmark.extra_info["total_s"] = round(sum(seconds), 3)


def test_judging_with_a_new_schema(benchmark: Any, source: str, way: Way) -> None:
    answers = answers_of(source)
    measure(benchmark, f"{source}: first judging", len(answers), map(way.first, answers))


def test_judging_with_a_known_schema(benchmark: Any, source: str, way: Way) -> None:
    answers = answers_of(source)
    measure(benchmark, f"{source}: judging again", len(answers), map(way.again, answers))


@needs_schemas
def test_building_every_real_schema_in_process(benchmark: Any, schemas: Sequence[dict[str, Any]]) -> None:
    judge = InProcessJudge(RS_ONLY)
    works = (functools.partial(judge.inspect, json.dumps(schema)) for schema in schemas)
    measure(benchmark, "building the real schemas", len(schemas), works)


@needs_schemas
def test_building_every_real_schema_in_the_child(benchmark: Any, schemas: Sequence[dict[str, Any]]) -> None:
    with Judge(RS_ONLY) as judge:
        judge.inspect(True)
        works = (functools.partial(judge.inspect, schema) for schema in schemas)
        measure(benchmark, "building the real schemas", len(schemas), works)
