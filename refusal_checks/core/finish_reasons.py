"""Why an answer ended, in the words of servers."""

from __future__ import annotations

FINISHED = frozenset(
    {"stop", "length", "content_filter", "tool_calls", "function_call", "repetition"}
)
"""The model or a limit ended the answer. A server that goes on uses no other word."""

ABORTED = frozenset({"abort", "aborted", "cancelled", "canceled", "error"})
"""The server ended the request, as vLLM and SGLang say where they are told to end themselves: what
it had said by then is no answer of the model."""

KNOWN = FINISHED | ABORTED | {"eos_token", "stop_sequence", "None"}
"""Words that are no text of a model; any other may be."""
