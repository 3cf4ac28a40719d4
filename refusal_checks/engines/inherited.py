"""The environment variables that an engine inherits: what it computes with, and no secret."""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLE = "REFUSAL_CHECKS_ENGINE_VARIABLES"
"""Names further variables for engines, divided by commas."""

_NAMES = (
    "HOME HOSTNAME LANG LANGUAGE LOGNAME PATH PWD SHELL TEMP TERM TMP TMPDIR TZ USER VIRTUAL_ENV "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CC CXX "
    "DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG CONTAINER_HOST"
)
NAMES = frozenset(_NAMES.split())
"""Of the system, of certificates and proxies (in lower case too), and of containers."""

_PREFIXES = (
    "LC_ LD_ DYLD_ XDG_ SSL_ PYTHON CONDA_ MALLOC_ SLURM_ "
    "HF_ HUGGING TRANSFORMERS_ TOKENIZERS_ SAFETENSORS_ VLLM_ SGLANG_ LMCACHE_ "
    "CUDA CUBLAS CUDNN NVIDIA_ NCCL_ NVSHMEM_ GPU_ HIP_ HSA_ ROC AMD_ MIOPEN_ RCCL_ ONEAPI_ ZE_ "
    "SYCL_ CCL_ TPU_ XLA_ PJRT_ NEURON_ HABANA_ "
    "OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ DNNL_ ONEDNN_ NUMEXPR_ TORCH PYTORCH_ TRITON_ FLASHINFER_ "
    "XFORMERS_ TVM_ RAY_ GLOO_ UCX_ MASTER_"
)
PREFIXES = tuple(_PREFIXES.split())
"""How the variables of engines, devices and libraries of numbers begin."""

SECRET = frozenset({"KEY", "KEYS", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "AUTH"})
"""A variable with one of these among its words is kept back."""

HUB = frozenset({"HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN"})
"""The secrets that an engine needs: it downloads gated weights."""


def inherited(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that a server started here gets of this process's own."""
    wanted = {name.strip() for name in environment.get(VARIABLE, "").split(",")}
    return {
        name: value for name, value in environment.items() if name in wanted or _is_needed(name)
    }


def _is_needed(name: str) -> bool:
    if name in HUB:
        return True
    upper = name.upper()
    return (upper in NAMES or upper.startswith(PREFIXES)) and not SECRET & set(upper.split("_"))
