from __future__ import annotations

import importlib.util
import socket
from typing import Any

import pytest

from pytest_jsbench.core.errors import PriceError
from pytest_jsbench.core.generations import Usage
from pytest_jsbench.metrics.prices import costs, price_of
from pytest_jsbench.metrics.summary import summarize
from pytest_jsbench.records.records import AnsweredBy, Attempt, Record
from pytest_jsbench.records.runs import Run
from tests.support import examples
from tests.support.examples import record, replace

needs_prices = pytest.mark.skipif(
    importlib.util.find_spec("genai_prices") is None, reason="needs the package genai-prices"
)


def used(case_id: str, **usage: Any) -> Record:
    return record(case_id, generation=replace(examples.completion(), usage=Usage(**usage)))


def paid(*records: Record, provider: str | None = "openai", model: str = "gpt-4o") -> Run:
    return examples.run(*records, provider=provider, model=model)


@needs_prices
def test_cost_follows_from_tokens_and_cached_ones_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        pytest.fail("went online")

    monkeypatch.setattr(socket.socket, "connect", forbidden)
    run = paid(
        used("a", input_tokens=1000, output_tokens=500),
        used("b", input_tokens=1000, output_tokens=500, cached_tokens=200),
    )

    found = costs(run)

    a, b = (found.attempts[one.attempt] for one in run.records)
    assert a == pytest.approx(1000 * 2.5e-6 + 500 * 10e-6)
    assert b == pytest.approx(800 * 2.5e-6 + 200 * 1.25e-6 + 500 * 10e-6)
    summary = summarize(run)
    assert summary.total.cost == pytest.approx(a + b)
    assert summary.total.to_dict()["cost"] == summary.total.cost
    assert summary.cost_problem == ""


@needs_prices
def test_cost_counts_paid_answers_without_tokens_as_unknown() -> None:
    silent = record("b", generation=examples.completion(tokens=None))
    broken = record("d", verdict=examples.BROKEN, generation=examples.failed())
    total = summarize(paid(record("a"), silent, record("c", generation=examples.declined()), broken)).total

    assert (total.priced, total.unpriced) == (1, 1)
    assert total.to_dict()["unpriced"] == 1


@needs_prices
def test_answer_of_a_batch_has_the_published_batch_price() -> None:
    usage = Usage(input_tokens=1000, output_tokens=500)
    alone = record("alone", generation=replace(examples.completion(), usage=usage))
    batched = record("batched", generation=replace(examples.batched(), usage=usage))

    found = costs(run := paid(alone, batched)).attempts

    assert found[batched.attempt] == pytest.approx(found[alone.attempt] / 2)
    assert price_of(run.metadata, batch=True)(usage) == found[batched.attempt]


@needs_prices
def test_tokens_written_to_the_cache_have_their_published_price() -> None:
    usage = {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 500}
    run = paid(
        used("minutes", **usage, cache_write_tokens=400),
        used("hour", **usage, cache_write_tokens=400, cache_write_1h_tokens=400),
        provider="anthropic",
        model="claude-haiku-4-5",
    )

    minutes, hour = costs(run).attempts.values()

    assert minutes == pytest.approx(100 * 1e-6 + 400 * 1.25e-6 + 500 * 0.1e-6 + 20 * 5e-6)
    assert hour == pytest.approx(100 * 1e-6 + 400 * 2e-6 + 500 * 0.1e-6 + 20 * 5e-6)


@needs_prices
def test_service_tier_has_its_published_price_or_none() -> None:
    usage = {"input_tokens": 1000, "output_tokens": 500}
    model = "gpt-5.4-mini"
    run = paid(used("a", **usage), used("b", **usage, service_tier="flex"), model=model)
    unpriced = paid(used("c", **usage, service_tier="scale"), model=model)

    standard, flex = costs(run).attempts.values()

    assert flex == pytest.approx(standard / 2)
    assert not costs(unpriced).attempts
    assert len(costs(unpriced).unknown) == 1
    assert costs(unpriced).problem == f"no published price for openai {model} in service tier scale"
    assert price_of(unpriced.metadata)(Usage(**usage, service_tier="scale")) is None


@needs_prices
def test_more_cached_tokens_than_input_tokens_are_accepted() -> None:
    assert costs(paid(used("a", input_tokens=10, output_tokens=1, cached_tokens=20))).attempts


@needs_prices
def test_answer_of_another_engine_has_its_price() -> None:
    ours = used("ours", input_tokens=1000, output_tokens=500)
    theirs = replace(ours, repeat=1, answered_by=AnsweredBy(engine="anthropic", model="m", provider=None))
    cheap = replace(ours, repeat=2, answered_by=AnsweredBy(engine="openai", model="gpt-4o-mini", provider="openai"))

    found = costs(paid(ours, theirs, cheap)).attempts

    assert {attempt.repeat for attempt in found} == {0, 2}
    assert found[cheap.attempt] == pytest.approx(1000 * 0.15e-6 + 500 * 0.6e-6)
    assert costs(paid(theirs, cheap, provider=None)).attempts.keys() == {Attempt(ours.key, 2)}


@needs_prices
def test_an_engine_without_a_published_price_hides_no_other_s_cost() -> None:
    ours = used("ours", input_tokens=1000, output_tokens=500)
    theirs = replace(ours, repeat=1, answered_by=AnsweredBy(engine="openai", model="my-model", provider="openai"))

    assert costs(paid(ours, theirs)).attempts.keys() == {Attempt(ours.key, 0)}
    assert costs(paid(theirs)).problem == "no published price for openai my-model"


@needs_prices
def test_price_is_that_of_the_answering_engine() -> None:
    metadata = paid().metadata
    usage = Usage(input_tokens=1_000_000, output_tokens=0)

    assert price_of(metadata, AnsweredBy(engine="e", model="gpt-4o-mini", provider="openai"))(usage) == 0.15
    with pytest.raises(PriceError, match="calls of engine 'local' have no published price"):
        price_of(metadata, AnsweredBy(engine="local", model="m"))


def test_cost_of_a_users_own_server_is_unknown() -> None:
    summary = summarize(paid(used("a", input_tokens=1, output_tokens=1), provider=None))

    assert (summary.total.cost, summary.cost_problem) == (None, "")


def test_missing_package_is_reported_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    summary = summarize(paid(used("a", input_tokens=1, output_tokens=1)))

    assert summary.cost_problem == "needs the package genai-prices: pip install genai-prices"


@needs_prices
def test_the_price_of_a_call_is_known_beforehand() -> None:
    price = price_of(paid().metadata)

    assert price(Usage(input_tokens=1000, output_tokens=500)) == pytest.approx(1000 * 2.5e-6 + 500 * 10e-6)
    assert price(Usage()) is None


@pytest.mark.parametrize(
    ("provider", "model", "message"),
    [
        (None, "m", "calls of engine 'scripted' have no published price"),
        pytest.param("openai", "my-model", "no published price for openai my-model", marks=needs_prices),
    ],
)
def test_cost_limit_without_a_price_is_rejected(provider: str | None, model: str, message: str) -> None:
    with pytest.raises(PriceError, match=message):
        price_of(paid(provider=provider, model=model).metadata)


def test_cost_limit_without_genai_prices_reports_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(PriceError, match="--jsbench-max-cost needs the package genai-prices: pip install genai-prices"):
        price_of(paid().metadata)
