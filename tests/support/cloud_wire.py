"""How Claude is called in a cloud, and the frames of Amazon's answers; the content is Anthropic's."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_jsbench.engines.base import EngineConfig
from tests.support import anthropic_wire
from tests.support.provider import Provider, Reply, stream_reply

SECRET = anthropic_wire.SECRET
MODEL = "us.anthropic.claude-test-v1:0"
#: The clouds' own addresses, as a user configures them.
BEDROCK = EngineConfig(name="anthropic-bedrock", model=MODEL, options={"region": "us-east-1"})
VERTEX = EngineConfig(name="anthropic-vertex", model="m", options={"region": "global", "project": "p-1"})
#: Temporary credentials as issued by AWS.
AWS: Mapping[str, str] = {
    "AWS_ACCESS_KEY_ID": "ASIATESTTESTTEST0123",
    "AWS_SECRET_ACCESS_KEY": "never-sent/0123456789abcdef",
    "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjEtest+token/0123456789==",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nowhere/config",
    "AWS_SHARED_CREDENTIALS_FILE": "/nowhere/credentials",
}


def bedrock(provider: Provider, *, options: dict[str, Any] | None = None, **changes: Any) -> EngineConfig:
    config = EngineConfig(name="anthropic-bedrock", model=MODEL, base_url=provider.url, api_key=SECRET)
    return replace(config, options={"region": "eu-west-1", **(options or {})}, **changes)


def vertex(provider: Provider, *, options: dict[str, Any] | None = None, **changes: Any) -> EngineConfig:
    config = EngineConfig(name="anthropic-vertex", model="m", base_url=f"{provider.url}/v1", api_key=SECRET)
    return replace(config, options={"region": "global", "project": "p-1", **(options or {})}, **changes)


def frame(payload: bytes, **headers: str) -> bytes:
    """Return one frame; `event_type` is the header `:event-type`."""
    named = {f":{name.replace('_', '-')}": value for name, value in headers.items()}
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in named.items()
    )
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return whole + struct.pack("!I", zlib.crc32(whole))


def framed(events: str) -> bytes:
    """Return Anthropic's server-sent events in Bedrock's frames."""
    datas = [line.removeprefix("data: ") for line in events.splitlines() if line.startswith("data: ")]
    payloads = [json.dumps({"bytes": base64.b64encode(data.encode()).decode(), "p": "abcd"}) for data in datas]
    return b"".join(frame(each.encode(), message_type="event", event_type="chunk") for each in payloads)


def exception(kind: str, words: str) -> bytes:
    return frame(json.dumps({"message": words}).encode(), message_type="exception", exception_type=kind)


def bedrock_stream(*chunks: str | bytes, pause: float = 0.0) -> Reply:
    """Return a stream: events become frames, bytes stay as they are."""
    pieces = (framed(chunk) if isinstance(chunk, str) else chunk for chunk in chunks)
    return stream_reply(*pieces, pause=pause, kind="application/vnd.amazon.eventstream")
