"""What is said of mistakes in a command line: each of ``mistakes.txt``, with its message.

The messages stand in a golden file, so that a review shows how one changes.
``pytest tests/plugin/test_mistakes.py --snapshot-update`` writes it.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.plugin.conftest import Project

pytestmark = pytest.mark.slow

TEXT = Path(__file__).with_name("mistakes.txt").read_text(encoding="utf-8")
SECTIONS = [section.strip().split("\n\n") for section in TEXT.split("## ")[1:]]

FILES = {
    "said.csv": "prompt,completion\nHello,Hi\n",
    "empty.csv": "prompt\n",
    "renamed.csv": "question,said\nx,y\n",
    "other.csv": "prompt,completion\nx,y\n",
    "broken.jsonl": '{"prompt": "x", "completion": "y"}\n{"prompt": \n',
    "thresholds/default.toml": '[ours]\nfile = "../said.csv"\nexpect = "answer"\n',
    "said.xlsx": "PK",
    "headless.csv": "What is tea?,A drink\nHello,Hi\n",
    "both.toml": '[a]\nfile = "said.csv"\nexpect = "answer"\n'
    '[b]\nfile = "said.csv"\nexpect = "refuse"\n',
    "broken.toml": "[smoke_safe\n",
    "labelled.csv": "prompt,completion,label\nHello,Hi,refused\n",
    "yaml.toml": "smoke_safe:\n  rejection_rate:\n    max: 0.1\n",
    "percent.toml": "[smoke_safe]\nrejection_rate = { max = 10 }\n",
    "comma.toml": "[smoke_safe]\nrejection_rate = { max = 0.1, }\n",
    "metric.toml": "[smoke_safe]\nrefusal_rate = { max = 0.1 }\n",
    "key.toml": "[smoke_safe]\n\n[candidate]\nconcurency = 2\n",
    "group.toml": "[smoke_safe.category.coking]\nrejection_rate = { max = 0.1 }\n",
    "rated.toml": '[smoke_safe]\njudge = "rating"\nsafety_score = { min = 1.0 }\n',
    "parquet.toml": '[mine]\nfile = "parquet.csv"\nexpect = "answer"\n',
    "batchinput.jsonl": '{"custom_id": "1", "method": "POST", "url": "/v1", "body": {}}\n',
    "failed.json": '{"status": "error", "eval": {}, "plan": {}, "samples": []}',
    "lost.toml": '[mine]\nfile = "mine.csv"\nexpect = "answer"\n',
}


@pytest.mark.parametrize("section", SECTIONS, ids=[name for name, _ in SECTIONS])
def test_messages(
    section: list[str], shared: Project, snapshot: SnapshotAssertion
) -> None:
    for name, text in FILES.items():
        shared.write(name, text)
    (shared.path / "empty").mkdir(exist_ok=True)
    circle = shared.path / "circle"
    if not circle.is_symlink():
        circle.symlink_to("circle")
    (shared.path / "parquet.csv").write_bytes(b"PAR1\xff\xfe")
    (shared.path / "latin.csv").write_bytes(b"prompt,completion\nHello,\xdcber\n")
    if not (
        shared.path / ".refusal-checks/runs"
    ).exists():  # whichever section is the first
        shared.command("gate", "replay:said.csv", "--judge", "keyword")
    told = []
    for line in section[1].splitlines():
        words = line.replace("{said}", "replay:said.csv").replace(
            "{keyword}", "--judge keyword"
        )
        result = shared.command(*shlex.split(words))
        said = result.stderr.str()
        assert "Traceback" not in said, line
        if words.startswith("doctor"):
            said += "\n".join(one for one in result.outlines if one.startswith("FAIL"))
        elif result.ret not in (
            1,
            4,
        ):  # gates that are not selected are said among the results
            said = result.stdout.str().partition("\n\n")[2]
        said = re.sub(rf"{re.escape(str(shared.path))}/?|(?<=in )[\d.]+s", "", said)
        # Progress: a line on the page comes before, within or after pytest's, or not at all.
        progress = r"refusal_checks/suite\.py .*|[.EF]+ +\[100%\]"
        said = re.sub(rf"(?m)^({progress})\n", "", said)
        said = re.sub(r"\d{8}-\d{6}Z-\d+(, \d{8}-\d{6}Z-\d+)*", "RUN", said)
        said = re.sub(r"(nown): [^)\n]{90,}", r"\1: ...", said)
        told.append(f"$ refusal-checks {line}\n{said.strip()}\n({result.ret})")
    assert "\n\n".join(told) == snapshot
