"""Which engine is chosen."""

import json

import pytest

from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.engines import kinds
from refusal_checks.engines.devices import Devices
from refusal_checks.engines.engine import Assignment, EngineSpec
from refusal_checks.engines.kinds import transformers
from refusal_checks.engines.kinds.transformers import ENGINE
from refusal_checks.models.client.client import RequestParams


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name, engine in kinds.discover().items():
        monkeypatch.setattr(
            type(engine), "is_installed", lambda _, there=name in names: there
        )


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (("transformers", "vllm"), "vllm"),
        (("transformers",), "transformers"),
        ((), "vllm"),
    ],
)
def test_auto_prefers_vllm(
    monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], chosen: str
) -> None:
    installed(monkeypatch, *there)
    assert kinds.choose("auto") == chosen
    assert kinds.choose("transformers") == "transformers"


def test_an_unknown_engine_names_the_nearest() -> None:
    with pytest.raises(
        UserError, match='no engine "transformer"; did you mean "transformers"'
    ):
        kinds.choose("transformer")


@pytest.mark.parametrize(("gpu", "device"), [(True, "auto"), (False, "cpu")])
def test_the_command_ends_with_what_the_user_passes(
    monkeypatch: pytest.MonkeyPatch, gpu: bool, device: str
) -> None:
    monkeypatch.setattr(
        transformers, "gpus", lambda: Devices("gpu" if gpu else "unknown")
    )
    place = Assignment(memory=0.3, shards=2, copies=2)
    command = ENGINE.command(
        EngineSpec("m", ("--dtype", "float32"), "transformers"), 8000, place
    )
    start = ["-m", "transformers.cli.transformers", "serve", "m"]
    assert command[1:] == [
        *(*start, "--host", "127.0.0.1", "--port", "8000", "--device", device),
        *("--dtype", "float32"),
    ]


def test_a_core_stays_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    spec = EngineSpec("m")
    assert "OMP_NUM_THREADS" not in ENGINE.environment("key", spec)
    assert (
        ENGINE.environment("key", spec, Assignment(threads=2))["OMP_NUM_THREADS"] == "2"
    )
    assert "key" not in ENGINE.environment("key", spec).values()


@pytest.mark.parametrize(
    "args", [("--max-model-len", "512"), ("-tp=2",), ("--continuous-batching",)]
)
def test_other_arguments_are_refused(args: tuple[str, ...]) -> None:
    with pytest.raises(
        ModelError, match=rf"no argument {args[0].partition('=')[0]}.*--dtype"
    ):
        ENGINE.check(args)


def test_it_samples_as_the_run_says() -> None:
    body = {"model": "m", **RequestParams(top_k=20, temperature=0.6).body}
    found = ENGINE.translate(body)
    assert "top_k" not in found
    assert (found["model"], found["temperature"]) == ("m", 0.6)
    config = json.loads(found["generation_config"])
    assert (config["do_sample"], config["top_k"]) == (True, 20)
