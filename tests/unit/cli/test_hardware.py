"""Where the doctor says that engines would go on hardware that is not here."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from refusal_checks.cli._common import overrides
from refusal_checks.cli.doctor.checks import Level
from refusal_checks.cli.doctor.hardware import parsed, planned
from refusal_checks.core.errors import UserError
from refusal_checks.engines.kinds.transformers import Transformers
from refusal_checks.engines.kinds.vllm import Vllm
from refusal_checks.models import weights
from refusal_checks.spec import RunSpec

ALONE = "beside openai/gpt-oss-20b, a candidate may have"


def model(folder: Path, gib: float, dtype: str = "bfloat16") -> str:
    """A folder that says that it has weights of this size."""
    folder.mkdir()
    about = {"vocab_size": 152_000, "torch_dtype": dtype}
    (folder / "config.json").write_text(json.dumps(about))
    size = {"metadata": {"total_size": int(gib * 2**30)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(size))
    return str(folder)


def said(hardware: str, *keys: str, **models: str | None) -> list[str]:
    spec = RunSpec.of(overrides([*keys], **models))
    return [f"{one.level} {one.text}" for one in planned(spec, parsed(hardware))]


@pytest.mark.parametrize(
    ("hardware", "expected"),
    [
        ("1x24GiB", f"1 x 24 GiB: {ALONE} 0.5 GiB (0.3 billion parameters of 16 bits); in turns, "
         "17.5 GiB (9.4 billion parameters of 16 bits)"),
        ("1x20", "1 x 20 GiB: no candidate fits beside openai/gpt-oss-20b; in turns, 14.0 GiB (7.5 "
         "billion parameters of 16 bits)"),
        ("2x80gb", f"2 x 80 GiB: {ALONE} 115.0 GiB (62 billion parameters of 16 bits); in turns, "
         "136.0 GiB (73 billion parameters of 16 bits)"),
        ("8X80G", f"8 x 80 GiB: {ALONE} 499.0 GiB (268 billion parameters of 16 bits); in turns, "
         "544.0 GiB (292 billion parameters of 16 bits)"),
    ],
)  # fmt: skip
def test_the_largest_candidate_beside_the_default_judge(
    hardware: str, expected: str
) -> None:
    (line,) = said(hardware)
    assert line == f"OK {expected}"


@pytest.mark.parametrize(
    ("hardware", "keys", "expected"),
    [
        # 0.9 x 24 GiB, and what vLLM's 256 answers of 152,000 tokens leave of it for a cache.
        ("1x24", (), "OK 1 x 24 GiB, turns: candidate m/seven (15.0 GiB) on GPU 0, "
         "21.6 GiB of each; judge openai/gpt-oss-20b (12.8 GiB) on GPU 0, 21.6 GiB of each"),
        ("2x80", (), "OK 2 x 80 GiB, split: candidate m/seven (15.0 GiB) on GPU 0, "
         "72.0 GiB of each; judge openai/gpt-oss-20b (12.8 GiB) on GPU 1, 72.0 GiB of each"),
        ("8x80", (), "OK 8 x 80 GiB, split: candidate m/seven (15.0 GiB) on GPU "
         "0,1,2,3,4,5,6, 7 copies, 72.0 GiB of each; judge openai/gpt-oss-20b (12.8 GiB) on GPU 7, "
         "72.0 GiB of each"),
        ("8x80", ("candidate.args=--tensor-parallel-size 8",), "OK 8 x 80 GiB, "
         "together: candidate m/seven (15.0 GiB) on GPU 0,1,2,3,4,5,6,7, 51.2 GiB of each with a "
         "cache of 43.4; judge openai/gpt-oss-20b (12.8 GiB) on GPU 0, 20.8 GiB of each with a "
         "cache of 1.1"),
        ("1x80", ("candidate.args=--gpu-memory-utilization 0.95",), "OK 1 x 80 GiB, "
         "turns: candidate m/seven (15.0 GiB) on GPU 0, 76.0 GiB of each; judge openai/gpt-oss-20b "
         "(12.8 GiB) on GPU 0, 72.0 GiB of each"),
    ],
)  # fmt: skip
def test_where_a_candidate_and_the_default_judge_go(
    tmp_path: Path, hardware: str, keys: tuple[str, ...], expected: str
) -> None:
    (tmp_path / "m").mkdir()
    candidate = model(tmp_path / "m" / "seven", 15.0)
    first, _ = said(hardware, *keys, candidate=candidate)
    assert first == expected


@pytest.mark.parametrize(
    ("dtype", "args", "expected"),
    [
        ("float32", (), "OK 1 x 24 GiB, one"),
        ("bfloat16", (), "FAIL use a smaller model"),
        # Only the engine knows.
        ("float32", ("candidate.args=--dtype float32",), "OK 1 x 24 GiB, one"),
    ],
)
def test_weights_of_32_bits_take_half_of_their_size(
    tmp_path: Path, dtype: str, args: tuple[str, ...], expected: str
) -> None:
    candidate = model(tmp_path / "seven", 26.0, dtype)
    first, _ = said("1x24", *args, candidate=candidate, judge="keyword")
    assert first.startswith(expected)


def test_hardware_that_is_not_here_has_vllm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Vllm, "is_installed", lambda self: False)
    monkeypatch.setattr(Transformers, "is_installed", lambda self: True)
    candidate = model(tmp_path / "seven", 26.0, "float32")
    first, _ = said("1x24", candidate=candidate, judge="keyword")
    assert first.startswith("OK 1 x 24 GiB, one"), "vLLM halves it"


def test_judges_that_are_named_count_and_those_without_an_engine_do_not(
    tmp_path: Path,
) -> None:
    judge = model(tmp_path / "judge", 40.0)
    (line,) = said("1x80", judge=judge)
    assert "/judge, a candidate may have 24.0 GiB" in line
    (line,) = said("1x80", judge="keyword")
    assert "without a judge there, a candidate may have 68.0 GiB" in line
    assert "in turns" not in line


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ({"judge": "openai/gpt-oss-20b"}, [f"OK 1 x 24 GiB: {ALONE} 0.5 GiB"]),
        ({"judge": "nobody/judge"}, ["WARN nobody/judge: weights of unknown size"]),
        (
            {"candidate": "nobody/seven", "judge": "nobody/judge"},
            [
                "WARN nobody/seven, nobody/judge: weights of unknown size",
                "WARN nobody/judge: weights of unknown size",
            ],
        ),
        (
            {"candidate": "nobody/seven"},
            [
                "WARN nobody/seven: weights of unknown size: download the model first",
                f"OK 1 x 24 GiB: {ALONE} 0.5 GiB",
            ],
        ),
    ],
)
def test_of_weights_of_unknown_size_no_largest_candidate_is_told(
    monkeypatch: pytest.MonkeyPatch,
    models: dict[str, str | None],
    expected: list[str],
) -> None:
    monkeypatch.setattr(weights, "weights_gib", lambda *_: None)
    lines = said("1x24GiB", **models)
    assert len(lines) == len(expected)
    assert all(map(str.startswith, lines, expected))


@pytest.mark.parametrize(
    ("hardware", "sizes", "args", "expected"),
    [
        ("1x8", (), "", "FAIL use a smaller model, or more or larger GPUs: openai/gpt-oss-20b "
         "(12.8 GiB) does not fit on GPU 0 of 8 GiB"),
        ("1x16", (10.4,), "--max-model-len 4096", "OK "),
        ("1x16", (12.8,), "", "WARN 1 x 16 GiB; m/judge-0 (12.8 GiB) may not fit: use a smaller "),
        ("1x16", (12.8,), "--quantization fp8", "OK "),
        ("2x16", (12.8,), "", "OK "),
        ("2x16", (12.8, 12.8), "", "FAIL use a smaller judge, or more or larger GPUs: "),
        ("1x24", (6.0, 8.0), "", "OK 1 x 24 GiB: no candidate fits beside m/judge-0, m/judge-1; "
         "in turns, 17.5 GiB"),
    ],
)  # fmt: skip
def test_judges_without_room_fail(
    tmp_path: Path, hardware: str, sizes: Sequence[float], args: str, expected: str
) -> None:
    (tmp_path / "m").mkdir()
    judges = [
        model(tmp_path / "m" / f"judge-{n}", size) for n, size in enumerate(sizes)
    ]
    keys = [f"judge.args={args}"] if args else []
    spec = RunSpec.of(overrides(keys, judge=judges or None))
    (found,) = planned(spec, parsed(hardware))
    line = f"{found.level} {found.text}"
    if found.remedy:
        line += f"; {found.remedy}"
    assert line.startswith(expected)


def test_what_is_no_hardware_is_refused() -> None:
    for text in ("24", "0x80", "2x0", "2x", "x80", "2 x 80", "1x99999999", "999x80"):
        with pytest.raises(UserError, match="write the number of GPUs and the GiB of"):
            parsed(text)


def test_a_model_that_is_not_here_fails(tmp_path: Path) -> None:
    spec = RunSpec.of(overrides([], candidate=str(tmp_path / "none")))
    (finding,) = planned(spec, parsed("1x80"))
    assert finding.level is Level.FAIL
    assert "no such folder" in finding.text


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vllm, "is_installed", lambda self: True)
