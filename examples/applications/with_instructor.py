"""Parcels, read with instructor, which asks again where the type refuses an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import instructor
from parcels import MODEL, Parcel, asked


def _how(text: str) -> dict[str, Any]:
    return {
        "response_model": Parcel,
        "messages": [{"role": "user", "content": asked(text)}],
        "context": {"text": text},
        "max_retries": 1,
        "temperature": 0,
        "max_completion_tokens": 64,
    }


def read(text: str) -> Parcel:
    """One."""
    client = instructor.from_provider(f"openai/{MODEL}", mode=instructor.Mode.JSON_SCHEMA)
    parcel: Parcel = client.create(**_how(text))
    return parcel


async def read_all(texts: Sequence[str]) -> list[Parcel]:
    """Several at once."""
    client = instructor.from_provider(f"openai/{MODEL}", mode=instructor.Mode.JSON_SCHEMA, async_client=True)
    return list(await asyncio.gather(*(client.create(**_how(text)) for text in texts)))
