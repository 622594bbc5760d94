"""Parcels, read with OpenAI's own client."""

from __future__ import annotations

from openai import OpenAI
from parcels import MODEL, Parcel, asked


def read(text: str) -> Parcel | None:
    """By Chat Completions."""
    answer = OpenAI().chat.completions.parse(
        model=MODEL,
        messages=[{"role": "user", "content": asked(text)}],
        response_format=Parcel,
        temperature=0,
        max_completion_tokens=64,
    )
    return answer.choices[0].message.parsed


def read_streamed(text: str) -> Parcel | None:
    """By Chat Completions, as the answer comes."""
    with OpenAI().chat.completions.stream(
        model=MODEL,
        messages=[{"role": "user", "content": asked(text)}],
        response_format=Parcel,
        temperature=0,
        max_completion_tokens=64,
    ) as stream:
        return stream.get_final_completion().choices[0].message.parsed


def read_by_responses(text: str) -> Parcel | None:
    """By Responses."""
    answer = OpenAI().responses.parse(
        model=MODEL, input=asked(text), text_format=Parcel, temperature=0, max_output_tokens=64
    )
    return answer.output_parsed
