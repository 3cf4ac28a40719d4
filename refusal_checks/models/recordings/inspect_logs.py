"""Inspect's logs (``.eval``), by inspect-ai's own reader, where that package is installed.

A sample's prompt is its last user message, its epochs are the prompt's samples. An answer is the
text of an output's choice, with all tool calls since the prompt. A sample that ended in an error
has no answer. Scores are labels by name: ``columns = { label = "scores.NAME" }``.
"""

from pathlib import Path
from typing import Any

from refusal_checks.core.errors import DataError
from refusal_checks.core.text import describe_value


def read_log(path: Path, may_be_partial: bool) -> list[dict[str, Any]]:
    """The samples of a log, by column.

    Raises DataError for an unfinished or failed log, which may lack samples or epochs, unless it
    may be partial.
    """
    try:
        from inspect_ai.log import read_eval_log  # takes seconds to import
    except ImportError:
        raise DataError(
            f"{path}: install the package that reads Inspect's logs: pip install inspect-ai"
        ) from None
    try:
        log = read_eval_log(path, resolve_attachments=True)
    except Exception as fault:  # its reader has no exceptions of its own
        raise DataError(
            f"{path}: name a log that inspect-ai can read: {describe_value(str(fault))}"
        ) from None
    if log.status != "success" and not may_be_partial:
        raise DataError(
            f"{path}: finish the log with `inspect eval-retry` and name the new one, or "
            f"gate what it has with --set recording.partial=true: its status is "
            f"{describe_value(log.status)}"
        )
    if not log.samples:
        raise DataError(
            f"{path}: no samples: was the log written with --no-log-samples?"
        )
    rows = []
    for sample in log.samples:
        rows += _rows(sample)
    return rows


def _rows(sample: Any) -> list[dict[str, Any]]:
    """One row for each choice of a sample's output."""
    prompt = sample.input
    if not isinstance(prompt, str):
        asked = [turn.text for turn in prompt if turn.role == "user"]
        prompt = asked[-1] if asked else ""

    calls: list[dict[str, Any]] = []
    for turn in sample.messages:
        if turn.role == "user":
            calls = []  # of an earlier exchange
        elif turn.role == "assistant":
            for call in turn.tool_calls or []:
                calls.append({"function": call.function, "arguments": call.arguments})

    row = {"id": sample.id, "epoch": sample.epoch, "prompt": prompt, "completion": None}
    for name, score in (sample.scores or {}).items():
        row[f"scores.{name}"] = score.value
    if sample.error:
        return [row]
    rows = []
    for choice in sample.output.choices:
        content = choice.message.content
        parts = [] if isinstance(content, str) else content
        thoughts = [part.reasoning for part in parts if part.type == "reasoning"]
        answer = {
            "content": choice.message.text,
            "reasoning": "\n".join(thoughts),
            "tool_calls": calls,
        }
        known = choice.stop_reason.replace("unknown", "")
        rows.append({**row, "completion": answer, "finish_reason": known})
    return rows
