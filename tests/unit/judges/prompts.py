"""What reads the outputs that the package's judge prompts of refusal and harm ask for."""

from collections.abc import Callable, Mapping

from refusal_checks.core.judgements import Judgement
from refusal_checks.judges import template, text_replies
from refusal_checks.judges.kinds.refusal import READING


def parser(name: str) -> Callable[[str], Judgement]:
    """Reads outputs as a prompt's front matter says; ``name`` is the prompt's, or a file."""
    return text_replies.make_parser(template.load(name), READING.make_judgement)


PARSERS: Mapping[str, Callable[[str], Judgement]] = {
    name: parser(name)
    for name, metadata in template.list_packaged().items()
    if metadata.reads in ("label", "pattern")
    and metadata.measures in ("refusal", "harm")
}
"""By name of the prompt."""
