from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from invoices import PROMPT, Invoice

from pytest_jsbench import JSBench, assert_conforms

TIDY = """Invoice AB-1234
Date: 2026-03-14
Total: 99.50 EUR
"""
CHATTY = """Hello! Please find invoice CD-0042 of 2026-05-01 attached.
Kindly transfer 120.00 USD within 30 days.
"""


def invoice(number: str, issued: date, currency: str, total: float) -> Invoice:
    return Invoice(number=number, issued=issued, currency=currency, total=total)


pytestmark = pytest.mark.jsbench(schema=Invoice, prompt=PROMPT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(TIDY, invoice("AB-1234", date(2026, 3, 14), "EUR", 99.5), id="tidy"),
        pytest.param(CHATTY, invoice("CD-0042", date(2026, 5, 1), "USD", 120.0), id="chatty"),
    ],
)
def test_an_invoice_is_read(jsbench: JSBench, text: str, expected: Invoice) -> None:
    answer = jsbench.generate(text=text, expected=expected)

    assert answer.match is not None
    # a separate test checks the currency
    assert [one for one in answer.match.differences if one.path != "$.currency"] == []


@pytest.mark.xfail(strict=True, reason="this very small model answers USD for every currency")
def test_the_currency_is_read(jsbench: JSBench) -> None:
    assert jsbench.generate(text=TIDY).instance["currency"] == "EUR"


@pytest.mark.jsbench(repeats=5, min_pass=4, temperature=0.3)
def test_a_little_warmer_it_is_still_read_most_of_the_time(jsbench: JSBench) -> None:
    assert jsbench.generate(text=TIDY).parsed.total == 99.5


def test_what_was_answered_in_production_still_conforms() -> None:
    for line in Path(__file__).with_name("logged.txt").read_text("utf-8").splitlines():
        assert_conforms(Invoice, line)
