"""The question, and the two functions that a model needs to answer it."""

from __future__ import annotations

MODEL = "gpt-4.1-mini"
QUESTION = "What are the weather and the time in Rome?"


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"{city}: 21 degrees."


def get_time(city: str) -> str:
    """Return the local time in a city."""
    return f"{city}: 12:30."


FUNCTIONS = {"get_weather": get_weather, "get_time": get_time}
ANSWER = "Rome: 21 degrees. Rome: 12:30."
