"""Find out from an engine's log why it ended, and what to do."""

import re
from collections.abc import Sequence

LOG_LINES, LOG_WIDTH, LOG_READ = 25, 2_000, 2**20
"""Last lines of the log that an error shows, characters of each that are read, and bytes of the log
in which they are looked for."""


_CAUSE = re.compile(r"(?<![\w./-])(?:[\w.]*(?:Error|Exception)|[\w./-]+: error): .+")
"""How the line of a log that says why a program ended looks: Python's last one, or argparse's."""


_REMEDIES = {
    "error: unrecognized arguments": "check candidate.args and judge.args; if the argument is "
    "not yours, install another version of the engine",
    "error: argument": "check candidate.args and judge.args",
    "not a valid model identifier": "check the name (ORG/MODEL or a folder); set HF_TOKEN if gated",
    "trust_remote_code": 'give --set candidate.args="--trust-remote-code" (or judge.args) if you '
    "trust the Python files that come with the model",
    "Repository Not Found": "check the name (ORG/MODEL or a folder); set HF_TOKEN if gated",
    "gated repo": "accept the model's conditions and set HF_TOKEN",
    "couldn't connect to": "check the name, connect this machine to the hub, or name a folder",
    "already in use": "run the same command again, which chooses other ports",
    "out of memory": "use a smaller model, or free the device",
    "Free memory on device": "free the GPU, or give the engine less of it "
    "(candidate.args or judge.args with --gpu-memory-utilization)",
    "No available memory for the cache blocks": "use a smaller model, a larger GPU, or "
    "--set engine.placement=turns: the weights leave no memory for a cache",
    "larger than the available KV cache memory": "use a smaller model, a larger GPU, or "
    "--set engine.placement=turns: the memory left for a cache holds no whole request",
}
"""What to do, by what a cause says."""

_SHORT_OF_MEMORY = re.compile(
    "out of memory|Free memory on device .* is less than|No available memory for the cache blocks"
    "|larger than the available KV cache memory"
)


_ABOVE = re.compile(r"root cause above|\(above\) for the root cause", re.IGNORECASE)
"""What a process says of a cause that another one has printed."""


def last_words(lines: Sequence[str]) -> Sequence[str]:
    """A log's last lines, or those up to a cause that they point to in another process's lines."""
    pointing = {_label(line) for line in lines[-LOG_LINES:] if _ABOVE.search(line)}
    end = len(lines)
    if pointing:
        for number, line in reversed(list(enumerate(lines, 1))):
            if _label(line) not in pointing and cause_in([line])[0]:
                end = number
                break
    return lines[max(0, end - LOG_LINES) : end]


def _label(line: str) -> str:
    """The prefix that vLLM puts before a process's lines, such as ``(EngineCore``."""
    return line.split(" ", 1)[0]


def cause_in(lines: Sequence[str]) -> tuple[str, str]:
    """Say why a server ended and what to do, as far as its log tells; else empty."""
    for line in reversed(lines):
        cause = _CAUSE.search(line)
        if cause and not _ABOVE.search(cause[0]):
            return cause[0][:500], _remedy(cause[0])
    return "", ""


def is_short_of_memory(log: str) -> bool:
    """True if a log says that the device had too little memory."""
    return _SHORT_OF_MEMORY.search(log) is not None


def _remedy(cause: str) -> str:
    for words, remedy in _REMEDIES.items():
        if words in cause:
            return remedy
    return ""
