"""Why an engine ended, as far as its log tells, and what to do."""

import re
from collections.abc import Sequence

LOG_LINES, LOG_WIDTH, LOG_READ = 25, 2_000, 2**20
"""Last lines of the log that an error shows, characters of each that are read, and bytes of the log
in which they are looked for."""


_CAUSE = re.compile(r"(?<![\w./-])(?:[\w.]*(?:Error|Exception)|[\w./-]+: error): .+")
"""How the line of a log that says why a program ended looks: Python's last one, or argparse's."""


_REMEDIES = {
    "error: unrecognized arguments": "check --candidate-args and --judge-args",
    "error: argument": "check --candidate-args and --judge-args",
    "not a valid model identifier": "check the name (ORG/MODEL or a folder); set HF_TOKEN if gated",
    "trust_remote_code": 'give --candidate-args="--trust-remote-code" (or --judge-args) if you '
    "trust the Python files that come with the model",
    "Repository Not Found": "check the name (ORG/MODEL or a folder); set HF_TOKEN if gated",
    "gated repo": "accept the model's conditions and set HF_TOKEN",
    "couldn't connect to": "check the name, connect this machine to the hub, or name a folder",
    "out of memory": "use a smaller model, or free the device",
}
"""What to do, by what a cause says."""


_ABOVE = re.compile(r"root cause above|\(above\) for the root cause", re.IGNORECASE)


def _last_words(lines: Sequence[str]) -> Sequence[str]:
    """The last lines; if they point to a cause above them, of another process, those up to it."""
    labels = [line.split(" ", 1)[0] for line in lines]  # vLLM's, such as (EngineCore
    above = {
        labels[n]
        for n in range(-min(LOG_LINES, len(lines)), 0)
        if _ABOVE.search(lines[n])
    }
    ends = (n for n in range(len(lines), 0, -1) if above and labels[n - 1] not in above)
    return lines[: next((n for n in ends if _cause(lines[n - 1 : n])[0]), None)][
        -LOG_LINES:
    ]


def _cause(lines: Sequence[str]) -> tuple[str, str]:
    """Why a server ended, as far as its log tells, and what to do; empty if it does not."""
    causes = (found[0] for line in reversed(lines) if (found := _CAUSE.search(line)))
    cause = next((one for one in causes if not _ABOVE.search(one)), "")
    remedy = next((what for words, what in _REMEDIES.items() if words in cause), "")
    return cause[:500], remedy
