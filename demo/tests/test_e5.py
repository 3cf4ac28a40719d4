"""The encoder of the demo judge: a small file in its package's layout becomes a folder."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ml_dtypes")
pytest.importorskip("safetensors")

from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from refusal_checks.core.errors import ModelError
from refusal_checks_demo import e5

WIDE, INNER, PIECES = 32, 64, ["<s>", "<pad>", "</s>", "<unk>", "\u2581egg", "\u2581s"]
QUERY = "bert.encoder.layer.0.attention.self.query"


def packed() -> tuple[bytes, dict[str, np.ndarray]]:
    """A file with one layer, and its tensors: 4-bit matrices, all else in full precision."""
    rng = np.random.default_rng(0)
    shapes = {"emb.word": (8, WIDE), "emb.pos": (4, WIDE), "emb.type": (2, WIDE)}
    shapes |= {f"l0.{name}.w": (WIDE, WIDE) for name in ("q", "k", "v", "ao")}
    shapes |= {"l0.fi.w": (INNER, WIDE), "l0.fo.w": (WIDE, INNER)}
    plain = {
        f"{name}.{end}": (WIDE,)
        for name in ("emb.ln", "l0.aln", "l0.oln")
        for end in "wb"
    }
    plain |= {f"l0.{name}.b": (WIDE,) for name in ("q", "k", "v", "ao", "fo")}
    plain["l0.fi.b"] = (INNER,)
    tensors, parts = {}, []
    for name, shape in (shapes | plain).items():
        if name in plain:
            tensors[name] = rng.normal(size=shape).astype("<f4")
            parts.append((name, 0, tensors[name].tobytes()))
            continue
        numbers = rng.integers(0, 16, (int(np.prod(shape)) // 32, 32), dtype=np.uint8)
        blocks = np.zeros(len(numbers), e5._BLOCK)
        blocks["scale"] = 0.5
        blocks["numbers"] = numbers[:, :16] | numbers[:, 16:] << 4
        tensors[name] = ((numbers.astype("f4") - 8) * 0.5).reshape(shape)
        parts.append((name, 1, blocks.tobytes()))
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)]).astype("<u4")
    head = b"E5S1" + struct.pack("<I4i3ifi", 1, WIDE, 1, 1, INNER, 8, 4, 2, 1e-12, 0)
    head += struct.pack("<5iQ", len(PIECES), 0, 0, 0, 0, int(ends[-1])) + ends.tobytes()
    head += np.array([0, 0, 0, 0, -1, -2], "<f4").tobytes() + "".join(PIECES).encode()
    head += struct.pack("<iI", 0, 0) + struct.pack("<i", len(parts))
    offset = len(head) + sum(
        2 + len(name) + struct.calcsize("<BIQQ") for name, _, _ in parts
    )
    places = b""
    for name, is_packed, data in parts:
        places += struct.pack("<H", len(name)) + name.encode()
        places += struct.pack("<BIQQ", is_packed, tensors[name].size, offset, len(data))
        offset += len(data)
    return head + places + b"".join(data for _, _, data in parts), tensors


def test_what_was_trained_is_merged_and_rounded_once(tmp_path: Path) -> None:
    source, trained, folder = (
        tmp_path / "e5.bin",
        tmp_path / "trained",
        tmp_path / "made",
    )
    data, tensors = packed()
    source.write_bytes(data)
    trained.mkdir()
    folder.mkdir()
    rng = np.random.default_rng(1)
    narrow, wide = rng.normal(size=(2, WIDE)), rng.normal(size=(WIDE, 2))
    learnt = {
        f"{QUERY}.a": narrow,
        f"{QUERY}.b": wide,
        "classifier.bias": np.array([1.0, -1.0]),
    }
    floats = {name: tensor.astype(np.float32) for name, tensor in learnt.items()}
    save_file(floats, trained / e5.LEARNT, {"format": "pt", "scale": "2.0"})
    for name in e5.SETTINGS:
        (trained / name).write_text(json.dumps({"from": name}))

    e5.convert(source, folder, e5.tuned(trained))
    found = load_file(folder / "model.safetensors")
    query = found[f"{QUERY}.weight"].astype(np.float32)
    np.testing.assert_allclose(
        query, tensors["l0.q.w"] + 2 * (wide @ narrow), rtol=1e-2, atol=1e-2
    )
    assert found["classifier.bias"].astype(np.float32).tolist() == [1.0, -1.0]
    assert found["bert.embeddings.word_embeddings.weight"].shape == (len(PIECES), WIDE)
    assert {tensor.dtype.name for tensor in found.values()} == {"bfloat16"}
    assert not any(name.endswith((".a", ".b")) for name in found)
    assert json.loads((folder / "config.json").read_text()) == {"from": "config.json"}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    shown = "<s> \u2581egg </s> </s> \u2581s </s>"
    assert tokenizer.encode("egg", "s").tokens == shown.split()


def test_what_is_not_its_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / e5.LEARNT).write_bytes(b"not")
    with pytest.raises(ModelError, match="not what was trained"):
        e5.tuned(tmp_path)
