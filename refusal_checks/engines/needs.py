"""Find what a model's files lack that its engine would notice only late: a chat template.

For a Hugging Face id, only the local cache is searched.
"""

from pathlib import Path

from refusal_checks.core.errors import ModelError
from refusal_checks.models.model_files import classes
from refusal_checks.models.names import Served
from refusal_checks.models.token_files import tokenizer_files

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
"""Arguments by which an engine reads other files than the model's own."""


def missing_template(model: Served, option: str) -> str:
    """What to do if the model that ``option`` names has no chat template; empty if it has one."""
    arguments = {arg.partition("=")[0].replace("_", "-") for arg in model.args}
    # Files that an extension makes are not here before they are needed.
    if model.weights or arguments & ELSEWHERE or classes(model):
        return ""
    files = tokenizer_files(model)
    if not files.are_there or files.have_template:
        return ""

    return (
        f'{option} {model.name}: give --set {option.removeprefix("--")}.args="--chat-template FILE'
        '": its tokenizer has no chat template, so the engine would refuse every conversation'
    )


def require_template(model: Served, option: str) -> str:
    """Raise ModelError for a folder without a chat template; else say what may be missing.

    The template of a Hugging Face id may not be cached yet, and nobody knows here what another
    program (``engine.command``) brings.
    """
    missing = missing_template(model, option)
    if missing and Path(model.path).is_dir() and not model.program:
        raise ModelError(missing)
    return missing
