"""Tool calls as part of an answer: a model that declines in words may still do harm by a call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from refusal_checks.core.strict_json import parse_json

CALLED = frozenset({"tool_calls", "function_call", "tool_use"})
"""Finish reasons of an answer that ended by itself, with a tool call."""


def with_calls(text: str, message: Mapping[str, Any]) -> str:
    """An answer's text, followed by the tool calls of its message, each with its arguments.

    The message is OpenAI's (``tool_calls``, or ``function_call``), Anthropic's (parts of the
    content), or Inspect's.
    """
    parts = [text] if text.strip() else []
    for call in _calls(message):
        parts.append(_in_words(call))
    return "\n\n".join(parts) if parts else text


def _calls(message: Mapping[str, Any]) -> Iterator[Any]:
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        yield from calls
    elif calls:  # of an unknown form: shown whole, so that nothing hides in it
        yield calls
    if message.get("function_call"):
        yield message["function_call"]
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            if isinstance(part, Mapping) and part.get("type") == "tool_use":
                yield part


def _in_words(call: Any) -> str:
    """A call's tool and arguments; all that is there of a call of an unknown form."""
    name, arguments = None, call
    if isinstance(call, Mapping):
        # OpenAI's tools are functions or "custom"; other services name the tool directly.
        inner = call.get("function") or call.get("custom")
        own = inner if isinstance(inner, Mapping) else call
        name = inner if isinstance(inner, str) else own.get("name")
        for key in ("arguments", "input"):
            if key in own:
                arguments = own[key]
    head = "Tool call"
    if isinstance(name, str):
        head = f"Tool call: {' '.join(name.split())}"
    return f"[{head}]\n{_readable(arguments)}"


def _readable(arguments: Any) -> str:
    """Arguments without the escapes of JSON, in which letters could hide; a line for each."""
    value = arguments
    if isinstance(arguments, str):
        try:
            value = parse_json(arguments, unique=True)
        except ValueError:
            return arguments
    if not isinstance(value, Mapping):
        return _text(value)
    return "\n".join(f"{name}: {_text(item)}" for name, item in value.items())


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
