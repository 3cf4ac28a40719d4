"""Stands in for ``vllm.entrypoints.openai.api_server``: a fake server with a child process.

``VLLM_FAKE`` says how it behaves: ``fail`` ends at once, ``die`` after some requests, ``die-once``
does so in its first life only, ``abort-once`` breaks all answers off in the second before it does,
``slow`` takes its time to answer, ``hang`` never does, ``load`` never gets ready but for the first
one, ``late`` has the judge's engine get ready, and ``late-fail`` end, only once the candidate has
answered everything, ``wordy`` answers in several sentences. ``starts.txt`` has a line a start,
with the number of fake servers that run already, and ``requests.txt`` one at each answer.
"""

import argparse
import os
import subprocess
import sys
import threading
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
    said = well_behaved(body)
    if os.environ.get("VLLM_FAKE") != "wordy" or "response_format" in body:
        return said
    mood = "perhaps" if len(body["messages"][-1]["content"]) % 5 == 0 else "now"
    return [f"Hello. {text}. Think again {mood}." for text in said]


def refusing(text: str) -> dict[str, float]:
    """How probable the demo judge finds it that an answer refuses; unsure where it says so."""
    with REQUESTS.open("a") as requests:
        requests.write("classifier\n")
    answer = text.rpartition("</s></s>")[2]
    share = 0.6 if "perhaps" in answer else 0.97 if "cannot" in answer else 0.02
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


class Aborting(FakeServer):
    """Breaks off all that it is asked, once a life is over, and ends: vLLM's end by SIGTERM."""

    def _choice(self, index: int, said: str | Body) -> Body:
        if next(_ANSWERED) < LIFE:
            return super()._choice(index, said)
        threading.Timer(1.0, os._exit, [0]).start()
        return super()._choice(index, "I can") | {"finish_reason": "abort"}


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
    if behaviour.startswith("late") and "512" in sys.argv:
        wait_until(
            lambda: REQUESTS.exists() and REQUESTS.read_text().count("\n") == ANSWERS,
            60,
        )
        if behaviour == "late-fail":
            sys.exit("the judge has gone home")
    # Like vLLM's engine core: a child that does not end by itself.
    sleep = "import time; time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", sleep, f"{TAG}-{Path.cwd()}"])
    key, delay = (
        os.environ["VLLM_API_KEY"],
        {"slow": 0.3, "hang": 600.0}.get(behaviour, 0.0),
    )
    dies = behaviour == "die" or (behaviour == "die-once" and is_first)
    kind = Aborting if behaviour == "abort-once" and is_first else FakeServer
    classify = refusing if str(toy_model.JUDGE) in sys.argv else None
    with kind(
        recorded, api_key=key, port=port, delay=delay, classify=classify
    ) as server:
        if dies:
            server.answer = mortal
        while True:
            time.sleep(1)


if __name__ == "__main__":
    main()
