"""The environment variables of this process that an engine inherits."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

VARIABLE = "REFUSAL_CHECKS_ENGINE_VARIABLES"
"""Names more variables for engines, separated by commas."""


INHERITED = (
    "HOME HOSTNAME LANG LANGUAGE LOGNAME PATH PWD SHELL TEMP TERM TMP TMPDIR TZ USER VIRTUAL_ENV "
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY REQUESTS_CA_BUNDLE CURL_CA_BUNDLE CC CXX "
    "DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG CONTAINER_HOST "
    "LC_* LD_* DYLD_* XDG_* SSL_* PYTHON* CONDA_* MALLOC_* SLURM_* HF_* HUGGING* TRANSFORMERS_* "
    "TOKENIZERS_* SAFETENSORS_* VLLM_* SGLANG_* LMCACHE_* CUDA* CUBLAS* CUDNN* NVIDIA_* NCCL_* "
    "NVSHMEM_* GPU_* HIP_* HSA_* ROC* AMD_* MIOPEN_* RCCL_* ONEAPI_* ZE_* SYCL_* CCL_* TPU_* XLA_* "
    "PJRT_* NEURON_* HABANA_* OMP_* GOMP_* KMP_* MKL_* OPENBLAS_* DNNL_* ONEDNN_* NUMEXPR_* TORCH* "
    "PYTORCH_* TRITON_* FLASHINFER_* XFORMERS_* TVM_* RAY_* GLOO_* UCX_* MASTER_*"
)
"""Variables for the system, certificates and proxies (in lower case, too), containers, engines,
devices and numerical libraries."""


SECRET = frozenset(
    {"KEY", "KEYS", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS", "AUTH"}
)
"""Variables with one of these words in their names are not passed on."""


HUB = {"HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN"}
"""Secrets that an engine needs to download gated weights."""


def inherited_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Select the environment variables that an engine inherits."""
    # The user's own names win: a proxy for weights may need a token.
    named = HUB | {name.strip() for name in environment.get(VARIABLE, "").split(",")}
    needed = re.compile(INHERITED.replace("*", ".*").replace(" ", "|"))
    variables = {}
    for name, text in environment.items():
        upper = name.upper()  # http_proxy is read in lower case, too
        is_secret = not SECRET.isdisjoint(upper.split("_"))
        if name in named or (needed.fullmatch(upper) and not is_secret):
            variables[name] = text
    return variables
