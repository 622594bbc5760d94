"""Describe JSON-RPC messages, and responses of MCP servers and providers, in files that should contain a schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_jsbench.core.json_values import json_type
from pytest_jsbench.core.text import printable

#: Fields of MCP results, as spelled in MCP 2025-11-25 and in the Python SDKs, with the method that returns the field.
_LISTS = {
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "resource_templates": "resources/templates/list",
    "contents": "resources/read",
    "roots": "roots/list",
    "tasks": "tasks/list",
}
#: Fields that any result may have, as spelled in the Python SDKs 1 and 2.
_OF_RESULTS = frozenset(
    {"nextCursor", "next_cursor", "meta", "_meta", "resultType", "result_type", "ttlMs", "ttl_ms", "cacheScope",
     "cache_scope"}
)  # fmt: skip
_VERSIONS = ("protocolVersion", "protocol_version")


def describe_message(value: Mapping[str, Any]) -> str:
    """
    Describe a message, as in `a JSON-RPC error (-32601: Method not found)`; return an empty text
    for other values.
    """
    if isinstance(value.get("jsonrpc"), str) and not {"method", "result", "error"}.isdisjoint(value):
        return printable(_describe_rpc(value), 200)
    return printable(_describe_result(value), 200)


def _describe_rpc(message: Mapping[str, Any]) -> str:
    error = message.get("error")
    if isinstance(error, Mapping):
        return f"a JSON-RPC error ({error.get('code')}: {error.get('message')})"
    if error is not None:
        return "a JSON-RPC error"
    if "method" in message:
        kind = "request" if message.get("id") is not None else "notification"
        return f"a JSON-RPC {kind} ({message['method']})"
    result = message.get("result")
    members = ", ".join(map(str, result)) if isinstance(result, Mapping) else json_type(result)
    return f"a JSON-RPC response without tools (its result: {members or 'empty'})"


def _describe_result(value: Mapping[str, Any]) -> str:
    """Describe a message without its JSON-RPC envelope, as SDKs dump it; return an empty text for other values."""
    error = value.get("error")
    if isinstance(error, Mapping) and isinstance(error.get("message"), str):
        return f"an error response ({error['message']})"
    if any(isinstance(value.get(name), str) for name in _VERSIONS) and "capabilities" in value:
        return "the result of MCP's initialize"
    for name, method in _LISTS.items():
        if isinstance(value.get(name), list) and value.keys() - {name} <= _OF_RESULTS:
            return f"the result of MCP's {method}"
    return ""
