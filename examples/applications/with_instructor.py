"""Read parcels with instructor, which retries if the type rejects an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import instructor
from parcels import MODEL, Parcel, make_prompt


def _call_arguments(text: str) -> dict[str, Any]:
    return {
        "response_model": Parcel,
        "messages": [{"role": "user", "content": make_prompt(text)}],
        "context": {"text": text},
        "max_retries": 1,
        "temperature": 0,
        "max_completion_tokens": 64,
    }


def read(text: str) -> Parcel:
    """Read one parcel."""
    client = instructor.from_provider(f"openai/{MODEL}", mode=instructor.Mode.JSON_SCHEMA)
    parcel: Parcel = client.create(**_call_arguments(text))
    return parcel


async def read_all(texts: Sequence[str]) -> list[Parcel]:
    """Read several parcels concurrently."""
    client = instructor.from_provider(f"openai/{MODEL}", mode=instructor.Mode.JSON_SCHEMA, async_client=True)
    return list(await asyncio.gather(*(client.create(**_call_arguments(text)) for text in texts)))
