"""Whether a model's tokenizer is on this machine, and has a chat template."""

from pathlib import Path
from typing import NamedTuple

from refusal_checks.models.model_files import argument_values, find_cached, read_object
from refusal_checks.models.model_names import Served, expand_home


class TokenizerFiles(NamedTuple):
    """Whether a model's tokenizer is on this machine, and has a chat template."""

    are_there: bool
    have_template: bool


def tokenizer_files(model: Served) -> TokenizerFiles:
    """Look for a model's tokenizer in its folder or in the local cache."""
    options = argument_values(model.args)
    cache, revision = options.get("--download-dir"), options.get("--revision")
    folder = expand_home(model.path)

    def find(name: str) -> Path | None:
        if folder.is_dir():
            return folder / name if (folder / name).is_file() else None
        return find_cached(model.path, name, cache, revision)

    about = read_object(find("tokenizer_config.json"))
    processor = read_object(folder / "processor_config.json")
    have_template = bool(
        about.get("chat_template")
        or processor.get("chat_template")
        or find("chat_template.json")
        or find("chat_template.jinja")
        or find("tekken.json")  # Mistral's tokenizers need none
        or (folder / "additional_chat_templates").is_dir()
    )
    return TokenizerFiles(bool(about), have_template)
