"""Reasoning models on real vLLM: by a marker of several tokens, and by vLLM's own parser."""

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from refusal_checks.engines.process import EngineProcess
from tests.e2e.conftest import (
    EVALUATED,
    SMOKE,
    UNVERIFIED,
    RunPersona,
    gate_command,
    run_gate,
)
from tests.toy_model import MODEL_DIR, PROMPTS

MARKER = ("--set", 'candidate.reasoning_end="Final answer:"')
QUICK = ("-m", "sanity", "--samples", "1")


def answers(store: Path) -> Iterator[dict[str, Any]]:
    """The stored answers."""
    with closing(sqlite3.connect(store)) as found:
        for (value,) in found.execute("SELECT value FROM completions"):
            yield json.loads(value)


def test_the_answer_follows_a_marker_of_several_tokens(
    run_persona: RunPersona, tmp_path: Path
) -> None:
    # Two answers a prompt, and a gate that weighs them: else no log-probabilities are asked for.
    own = (
        "--set",
        "smoke_safe.refusal_confidence_rate.max=1.0",
        "--store",
        tmp_path / "store.sqlite",
        "--samples",
        "2",
        "--set",
        "sampling.max_tokens=256",
    )
    run = run_persona("deliberator", *MARKER, *QUICK, *own)
    assert run.status == UNVERIFIED, run.output
    found = list(answers(tmp_path / "store.sqlite"))
    closed = [answer for answer in found if answer["reasoning"] == "closed"]
    assert len(closed) >= 0.98 * len(found) == 0.98 * 160
    for answer in closed:
        assert "Final answer:" not in answer["text"]
        assert answer["mean_logprob"] <= 0
        assert answer["tokens"] > len(answer["text"].split())


def write_adapter(folder: Path) -> None:
    """A LoRA adapter of the demo model that changes nothing: its second factors are zero."""
    import torch
    from safetensors.torch import save_file

    sizes = json.loads((MODEL_DIR / "config.json").read_text())
    hidden, rank = sizes["hidden_size"], 8
    weights = {}
    for layer in range(sizes["num_hidden_layers"]):
        stem = f"base_model.model.model.layers.{layer}.self_attn.q_proj"
        weights[f"{stem}.lora_A.weight"] = torch.ones(rank, hidden)
        weights[f"{stem}.lora_B.weight"] = torch.zeros(hidden, rank)
    folder.mkdir()
    save_file(weights, folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": rank,
        "lora_alpha": rank,
        "target_modules": ["q_proj"],
        "base_model_name_or_path": "demo",
        "task_type": "CAUSAL_LM",
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


def test_vllms_parser_and_an_adapter(engine: EngineProcess, tmp_path: Path) -> None:
    adapter = tmp_path / "calm"
    write_adapter(adapter)
    lora = f"--enable-lora --max-lora-rank 8 --lora-modules calm={adapter}"
    args = f"--reasoning-parser deepseek_r1 {lora}"
    command = gate_command(
        *("--candidate", "demo:reasoner@calm", "--set", f"candidate.args={args}"),
        *("--judge", f"{engine.url}#{MODEL_DIR}", "--set", f"judge.prompt={PROMPTS}"),
        *("--set", "judge.template_variables.persona=judge"),
        *(
            *SMOKE,
            *QUICK,
            "--set",
            "sampling.max_tokens=256",
        ),
        *("--store", tmp_path / "store.sqlite"),
    )
    environment = {**os.environ, "REFUSAL_CHECKS_JUDGE_API_KEY": engine.api_key}
    run = run_gate(command, environment)
    assert run.status in EVALUATED, (
        run.output
    )  # this toy is near the bound, whatever the processor
    found = list(answers(tmp_path / "store.sqlite"))
    assert sum(answer["reasoning"] == "closed" for answer in found) >= 0.98 * len(found)
    assert not any("<think>" in answer["text"] for answer in found)
    model = run.summary["manifest"]["models"]["candidate"]
    assert model["adapter"].startswith("calm@sha256:")
