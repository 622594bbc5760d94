"""Read parcels with OpenAI's client."""

from __future__ import annotations

from openai import OpenAI
from parcels import MODEL, Parcel, make_prompt


def read(text: str) -> Parcel | None:
    """Read a parcel through Chat Completions."""
    answer = OpenAI().chat.completions.parse(
        model=MODEL,
        messages=[{"role": "user", "content": make_prompt(text)}],
        response_format=Parcel,
        temperature=0,
        max_completion_tokens=64,
    )
    return answer.choices[0].message.parsed


def read_streamed(text: str) -> Parcel | None:
    """Read a parcel through streamed Chat Completions."""
    with OpenAI().chat.completions.stream(
        model=MODEL,
        messages=[{"role": "user", "content": make_prompt(text)}],
        response_format=Parcel,
        temperature=0,
        max_completion_tokens=64,
    ) as stream:
        return stream.get_final_completion().choices[0].message.parsed


def read_by_responses(text: str) -> Parcel | None:
    """Read a parcel through Responses."""
    answer = OpenAI().responses.parse(
        model=MODEL, input=make_prompt(text), text_format=Parcel, temperature=0, max_output_tokens=64
    )
    return answer.output_parsed
