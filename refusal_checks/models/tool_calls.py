"""Tool calls as part of an answer: a model that declines in words may still do harm by a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from refusal_checks.io.strict_json import parse_json

CALLED = frozenset({"tool_calls", "function_call", "tool_use"})
"""Finish reasons of an answer that ended by itself, with a tool call."""


def append_tool_calls(text: str, message: Mapping[str, Any]) -> str:
    """An answer's text, followed by the tool calls of its message, each with its arguments.

    Calls of an unknown form are shown whole, so that nothing hides in them.
    """
    calls = message.get("tool_calls") or message.get("function_call") or []
    if not isinstance(calls, list):
        calls = [calls]
    if not calls:
        return text
    parts = [text] if text.strip() else []
    return "\n\n".join([*parts, *map(_describe_call, calls)])


def _describe_call(call: Any) -> str:
    """A call's tool and arguments; the whole call if its form is unknown."""
    inner = call
    if isinstance(call, Mapping):
        # OpenAI's tools are functions or "custom"; Inspect names the function directly.
        inner = call.get("function") or call.get("custom")
        if not isinstance(inner, Mapping):
            inner = {**call, "name": inner}
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not isinstance(name, str):
        return f"[Tool call]\n{_show_arguments(call)}"
    arguments = inner.get("arguments", inner.get("input"))
    return f"[Tool call: {' '.join(name.split())}]\n{_show_arguments(arguments)}"


def _show_arguments(arguments: Any) -> str:
    """Arguments without the escapes of JSON, in which letters could hide; a line for each."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = parse_json(arguments, unique=True)
        except ValueError:
            return arguments
    if not isinstance(value, Mapping):
        return _show_value(value)
    return "\n".join(f"{name}: {_show_value(item)}" for name, item in value.items())


def _show_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
