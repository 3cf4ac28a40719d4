"""Find out early what a model lacks that its engine would notice late: files, a chat template."""

import os
from collections.abc import Callable
from pathlib import Path

from refusal_checks.core.errors import ModelError, describe_network_fault
from refusal_checks.models.identity import cached_commit
from refusal_checks.models.model_files import (
    argument_values,
    classifier_config,
    configuration,
)
from refusal_checks.models.model_names import Served
from refusal_checks.models.token_files import tokenizer_files
from refusal_checks.models.weights import PATIENCE

ELSEWHERE = frozenset(
    {
        "--chat-template",
        "--config",
        "--config-format",
        "--hf-config-path",
        "--hf-overrides",
        "--load-format",
        "--tokenizer",
        "--tokenizer-mode",
    }
)
"""Arguments that make an engine read other files than the model's own."""


def missing_template(model: Served, option: str) -> str:
    """What to do if the model named by ``option`` has no chat template; empty if it has one."""
    is_elsewhere = not ELSEWHERE.isdisjoint(argument_values(model.args))
    # Files that an extension makes are not here before they are needed.
    if model.weights or is_elsewhere or classifier_config(model):
        return ""
    files = tokenizer_files(model)
    if not files.are_there or files.have_template:
        return ""  # without the files nobody knows

    return (
        f'{option} {model.name}: give --set {option.removeprefix("--")}.args="--chat-template FILE'
        '": its tokenizer has no chat template, so the engine would refuse every conversation'
    )


def require_template(model: Served, option: str) -> str:
    """Raise ModelError for a folder without a chat template; else say what may be missing.

    A Hugging Face model's template may not be cached yet, and another program
    (``engine.command``) may bring its own.
    """
    missing = missing_template(model, option)
    if missing and Path(model.path).is_dir() and not model.program:
        raise ModelError(missing)
    return missing


def require_files(model: Served, option: str, say: Callable[[str], None]) -> None:
    """Refuse a Hugging Face id that is neither cached here nor on the hub.

    vLLM would notice it a minute later, and only in its log.
    """
    is_elsewhere = model.program or os.environ.get("VLLM_USE_MODELSCOPE")
    if model.weights or is_elsewhere or Path(model.path).is_dir():
        return
    revision = argument_values(model.args).get("--revision") or "main"
    if configuration(model) or cached_commit(model.path, revision) != model.path:
        return  # cached, so an engine may start without the network

    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

    say(f"looking up {model.path} on the Hugging Face hub")
    named = f"{option} {model.name}"
    try:
        HfApi().model_info(model.path, revision=revision, timeout=PATIENCE)
    except RepositoryNotFoundError:
        raise ModelError(
            f"{named}: correct the name, or set HF_TOKEN if the model is private: the Hugging Face "
            "hub has no such model"
        ) from None
    except RevisionNotFoundError:
        raise ModelError(
            f"{named}: correct --revision: the model has no revision {revision}"
        ) from None
    except Exception as fault:  # its HTTP library has its own
        raise ModelError(
            f"{named}: connect this machine to the Hugging Face hub, or name a folder: nothing of "
            f"this model is here, and the hub did not answer: {describe_network_fault(fault)}"
        ) from None
