"""Stands in for ``vllm.entrypoints.openai.api_server``: a fake server with a child process.

``VLLM_FAKE`` says how it behaves: ``fail`` ends at once, ``die`` after some requests, ``die-once``
does so in its first life only, ``hang`` never answers, ``load`` never gets ready but for the first
one, and ``late-fail`` has the judge's engine end once the candidate has answered everything.
``starts.txt`` has a line a start, with the number of fake servers that run already, and
``requests.txt`` one at each answer.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import psutil

from tests import toy_model
from tests.support.answers import well_behaved
from tests.support.fake_server import Body, FakeServer
from tests.support.processes import wait_until

TAG = "fake-vllm-of"
STARTS = Path("starts.txt")
REQUESTS = Path("requests.txt")
ANSWERS = 160
"""Answers of a run of the tests' thresholds."""

LIFE = 20
"""Requests after which a server dies that is to do so."""

_ANSWERED = count()


def recorded(body: Body) -> Sequence[str]:
    """Answers, and notes down whether the judge was asked or the candidate."""
    with REQUESTS.open("a") as requests:
        requests.write("judge\n" if "response_format" in body else "candidate\n")
    return well_behaved(body)


def refusing(text: str) -> dict[str, float]:
    """How probable the demo judge finds it that an answer refuses."""
    with REQUESTS.open("a") as requests:
        requests.write("classifier\n")
    share = 0.97 if "cannot" in text.rpartition("</s></s>")[2] else 0.02
    return {"compliance": 1 - share, "refusal": share}


def running(folder: Path) -> int:
    """How many fake servers of a folder run, by their children."""
    tag = f"{TAG}-{folder}"
    lines = (
        process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])
    )
    return sum(tag in line for line in lines)


def mortal(body: Body) -> Sequence[str]:
    """Answers as many requests as a life has, then takes the server with it."""
    if next(_ANSWERED) >= LIFE:
        os._exit(0)
    return recorded(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_known_args()[0].port
    behaviour = os.environ.get("VLLM_FAKE", "")
    is_first = not STARTS.exists()
    with STARTS.open("a") as starts:
        starts.write(f"{running(Path.cwd())} running: {' '.join(sys.argv)}\n")
    if behaviour == "fail":
        print("the model has two left feet", file=sys.stderr)
        sys.exit(3)
    if behaviour == "load" and not is_first:
        time.sleep(600)
    if behaviour == "late-fail" and "512" in sys.argv:
        wait_until(
            lambda: REQUESTS.exists() and REQUESTS.read_text().count("\n") == ANSWERS,
            60,
        )
        sys.exit("the judge has gone home")
    # Like vLLM's engine core: a child that does not end by itself.
    sleep = "import time; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", sleep, f"{TAG}-{Path.cwd()}"])
    key = os.environ["VLLM_API_KEY"]
    delay = 600.0 if behaviour == "hang" else 0.0
    dies = behaviour == "die" or (behaviour == "die-once" and is_first)
    classify = refusing if str(toy_model.JUDGE) in sys.argv else None
    with FakeServer(
        recorded, api_key=key, port=port, delay=delay, classify=classify
    ) as server:
        if dies:
            server.answer = mortal
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main()
