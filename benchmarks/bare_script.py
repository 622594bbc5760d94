"""
What somebody would write without this package: call the official SDK for each schema of a folder, with asyncio.

    python benchmarks/bare_script.py FOLDER BASE_URL [--in-flight 64] [--streaming]

It counts the answers that parse as JSON. It judges nothing, repeats no failed call and records nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI


async def _answer(client: AsyncOpenAI, path: Path, *, streaming: bool) -> str:
    schema = json.loads(path.read_text())
    arguments: dict[str, Any] = {
        "model": "loopback",
        "max_completion_tokens": 2048,
        "messages": [
            {"role": "system", "content": "You need to generate a JSON object that matches the schema below."},
            {"role": "user", "content": json.dumps(schema)},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": False},
        },
    }
    if not streaming:
        completion = await client.chat.completions.create(**arguments)
        return completion.choices[0].message.content or ""
    stream = await client.chat.completions.create(**arguments, stream=True, stream_options={"include_usage": True})
    parts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
    return "".join(parts)


async def _count_answers(folder: Path, base_url: str, in_flight: int, *, streaming: bool) -> int:
    permits = asyncio.Semaphore(in_flight)
    async with AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0) as client:

        async def is_json(path: Path) -> bool:
            async with permits:
                answer = await _answer(client, path, streaming=streaming)
            try:
                json.loads(answer)
            except ValueError:
                return False
            return True

        return sum(await asyncio.gather(*map(is_json, sorted(folder.glob("*.json")))))


def main() -> None:
    """Call the model once for each schema, and print the number of answers that are JSON."""
    parser = argparse.ArgumentParser(description="call a model once for each schema")
    parser.add_argument("folder", type=Path)
    parser.add_argument("base_url")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--streaming", action="store_true")
    given = parser.parse_args()
    counted = _count_answers(given.folder, given.base_url, given.in_flight, streaming=given.streaming)
    print(asyncio.run(counted))


if __name__ == "__main__":
    main()
