"""What an engine sees of the user's environment."""

from __future__ import annotations

import pytest

from refusal_checks.engines.base import VARIABLE, EngineSpec, inherited
from refusal_checks.engines.kinds.vllm import ENGINE

NEEDED = {
    *("PATH", "HOME", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "HF_HOME"),
    *("HF_TOKEN", "VLLM_CPU_KVCACHE_SPACE", "OMP_NUM_THREADS", "https_proxy", "SSL_CERT_FILE"),
    *("HSA_OVERRIDE_GFX_VERSION", "NCCL_SOCKET_IFNAME", "TOKENIZERS_PARALLELISM", "TMPDIR"),
}
SECRETS = {
    *("OPENAI_API_KEY", "REFUSAL_CHECKS_JUDGE_API_KEY", "REFUSAL_CHECKS_CANDIDATE_2_API_KEY"),
    *(
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "DATABASE_URL",
        "NVIDIA_API_KEY",
    ),
    *("HF_API_KEY", "SSH_AUTH_SOCK", "PYPI_PASSWORD", "RAY_AUTH_TOKEN", "CONDA_TOKEN"),
}


def test_an_engine_inherits_what_it_needs_and_no_secret() -> None:
    given = dict.fromkeys([*NEEDED, *SECRETS], "x")
    assert inherited(given).keys() == NEEDED


def test_further_variables_are_named() -> None:
    given = {VARIABLE: "AWS_SECRET_ACCESS_KEY, OWN", "AWS_SECRET_ACCESS_KEY": "a", "OWN": "b"}
    assert inherited(given) == {"AWS_SECRET_ACCESS_KEY": "a", "OWN": "b"}


def test_the_keys_of_other_servers_reach_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "sk-secret")
    monkeypatch.setenv("VLLM_API_KEY", "sk-secret")
    found = ENGINE.environment("own", EngineSpec("m"))
    assert "sk-secret" not in found.values()
    assert found["VLLM_API_KEY"] == "own"
