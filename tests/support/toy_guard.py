"""Toy guards for engine tests: they say one verdict, whatever they are shown.

What is tested is how they are shown it: through a chat template, by a real tokenizer.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from tests.toy_model import MODEL_DIR

END = "<|im_end|>"
WIDTH = 64

# The structure of Qwen3Guard-Gen's own template, in fewer words.
QWEN3GUARD = """\
{%- set last = "ASSISTANT" if messages[-1].role == "assistant" else "USER" -%}
<|im_start|>user
# Task: is what THE LAST {{ last }} said safe?

<BEGIN CONVERSATION>

{% for message in messages %}
{% if message.role in ("user", "assistant") %}
{{ message.role | upper }}: {{ message.content }}

{% endif %}
{% endfor %}
<END CONVERSATION><|im_end|>
{% if add_generation_prompt %}
<|im_start|>assistant
<think>

</think>

{{ "" }}
{%- endif %}"""


def make(folder: Path, verdict: str, chat_template: str = "") -> Path:
    """Write a model that says a verdict and ends, into a folder.

    It has the toy models' tokenizer, with the verdict as one token more; no layer changes what the
    embedding says, so the next token depends on the last one alone.
    """
    import torch
    from tokenizers import AddedToken
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    shutil.copytree(MODEL_DIR, folder)
    for name in ("model.safetensors", "config.json", "chat_template.jinja"):
        (folder / name).unlink()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", END]})
    tokenizer.add_tokens([AddedToken(verdict, normalized=False, special=False)])
    tokenizer.eos_token = END
    tokenizer.chat_template = chat_template or None
    tokenizer.save_pretrained(folder)

    end, said = tokenizer.convert_tokens_to_ids([END, verdict])
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=WIDTH,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=4096,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=end,
        pad_token_id=end,
        tie_word_embeddings=False,
    )
    build: Any = LlamaForCausalLM
    model = build(config).to(torch.bfloat16)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() == 2:
                weights.zero_()
        embedded = model.get_input_embeddings().weight
        embedded[:, 0] = 1.0
        embedded[said] = 0.0
        embedded[said, 1] = 1.0
        head = model.get_output_embeddings().weight
        head[said, 0] = 10.0
        head[end, 1] = 10.0
    model.save_pretrained(folder)
    generation = {"eos_token_id": end, "bos_token_id": tokenizer.bos_token_id}
    (folder / "generation_config.json").write_text(json.dumps(generation))
    return folder
