"""Parcels, read with an agent of Pydantic AI."""

from __future__ import annotations

from parcels import MODEL, Parcel, asked
from pydantic_ai import Agent, NativeOutput


def _agent() -> Agent[None, Parcel]:
    return Agent(
        f"openai:{MODEL}", output_type=NativeOutput(Parcel), model_settings={"temperature": 0, "max_tokens": 64}
    )


def read(text: str) -> Parcel:
    """At once."""
    parcel: Parcel = _agent().run_sync(asked(text)).output
    return parcel


async def read_streamed(text: str) -> Parcel:
    """As the answer comes."""
    async with _agent().run_stream(asked(text)) as result:
        parcel: Parcel = await result.get_output()
        return parcel
