"""Read both calls with instructor; its mode for several calls in one answer has no streams."""

from __future__ import annotations

from collections.abc import Iterable

import instructor
from city import FUNCTIONS, MODEL, QUESTION
from pydantic import BaseModel


class get_weather(BaseModel):  # noqa: N801  instructor names the tool after the class
    """Return the weather in a city."""

    city: str


class get_time(BaseModel):  # noqa: N801
    """Return the local time in a city."""

    city: str


def answer() -> str:
    """Return the results of the calls."""
    client = instructor.from_provider(f"openai/{MODEL}", mode=instructor.Mode.PARALLEL_TOOLS)
    calls = client.create(
        response_model=Iterable[get_weather | get_time], messages=[{"role": "user", "content": QUESTION}], max_retries=0
    )
    return " ".join(FUNCTIONS[type(call).__name__](call.city) for call in calls)
