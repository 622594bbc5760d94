from __future__ import annotations

import asyncio

import pytest

from pytest_jsbench import JSBench

pytest.importorskip("instructor")
from instructor.core import InstructorRetryException
from texts import MISREAD, TEXTS
from with_instructor import read, read_all


def test_a_parcel_is_read(jsbench: JSBench) -> None:
    text, expected = next(iter(TEXTS.items()))

    assert read(text).model_dump() == expected.model_dump()
    assert len(jsbench.endpoint.answers) == 1


def test_several_parcels_are_read_at_once(jsbench: JSBench) -> None:
    parcels = asyncio.run(read_all(list(TEXTS)))

    assert [one.model_dump() for one in parcels] == [one.model_dump() for one in TEXTS.values()]
    assert len(jsbench.endpoint.answers) == len(TEXTS)


def test_a_number_that_is_made_up_is_asked_for_again_and_never_taken(jsbench: JSBench) -> None:
    with pytest.raises(InstructorRetryException, match="PZ123456 does not stand in the text"):
        read(MISREAD)

    # both answers conform: a schema cannot detect that the number is wrong
    assert [answer.verdict.passed for answer in jsbench.endpoint.answers] == [True, True]
