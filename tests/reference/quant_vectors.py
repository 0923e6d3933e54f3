#!/usr/bin/env python3
"""Writes the golden vectors of tests/fixtures/quant: blocks of every weight format with the values that the
numpy dequantisers of the `gguf` package give them, and rows with the blocks that its quantisers make of them.

    pip install gguf==0.19.0 numpy
    python3 tests/reference/quant_vectors.py
    python3 tests/reference/quant_vectors.py llama-hd128-untied.s1.f16.gguf llama-hd128-untied.s1.q4_k_m.gguf

For each format: <name>.blocks (raw blocks), <name>.f32 (their values, little-endian float32). For the formats
that it can quantise also <name>.quantized (the blocks of the values in rows.f32).

The K formats are searched, and only llama.cpp has the search: with two files of the same weights, float16 and as
llama.cpp quantised them, it writes rows of both, <name>.rows (float16) and <name>.quantized.
"""
import pathlib
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader
from gguf import quants

OUT = pathlib.Path(__file__).parent.parent / "fixtures" / "quant"
# Byte offsets of the float16 fields of a block; everything else in it is free.
HALVES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}
QUANTIZED = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]
# Ordinary scales, both signs, zero, a subnormal, the largest and the smallest normal.
SCALES = np.array([0.0123, -0.37, 0.0, 6e-8, 65504.0, 6.104e-05], dtype="<f2")


def blocks_of(rng, dtype, halves):
    n = 6 if len(halves) else 1
    size = quants.GGML_QUANT_SIZES[dtype][1]
    blocks = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for k, at in enumerate(halves):
        blocks[:, at:at + 2] = np.roll(SCALES, k).reshape(n, 1).view(np.uint8)
    return blocks


def main():
    rng = np.random.default_rng(20)
    OUT.mkdir(parents=True, exist_ok=True)

    def write(name, array):
        (OUT / name).write_bytes(np.ascontiguousarray(array).tobytes())

    for dtype, halves in HALVES.items():
        blocks = blocks_of(rng, dtype, halves)
        write(f"{dtype.name.lower()}.blocks", blocks)
        write(f"{dtype.name.lower()}.f32", quants.dequantize(blocks, dtype).astype("<f4"))

    plain = np.concatenate([rng.standard_normal(26), [0.0, -0.0, np.inf, -np.inf, 1e-40, 65504.0]]).astype("<f4")
    with np.errstate(over="ignore"):
        half = plain.astype("<f2")
    write("f32.blocks", plain), write("f32.f32", plain)
    write("f16.blocks", half), write("f16.f32", half.astype("<f4"))
    brain = (plain.view("<u4") >> 16).astype("<u2")
    write("bf16.blocks", brain), write("bf16.f32", quants.dequantize(brain.view(np.uint8), T.BF16).astype("<f4"))

    # Ordinary rows, a constant one, zeros, a single outlier, and ties in magnitude.
    rows = rng.standard_normal((12, 32)).astype("<f4")
    rows[8], rows[9] = 0.25, 0.0
    rows[10, 5] = -40.0
    rows[11] = np.where(np.arange(32) % 2 == 0, 1.5, -1.5)
    write("rows.f32", rows)
    for dtype in QUANTIZED:
        write(f"{dtype.name.lower()}.quantized", quants.quantize(rows, dtype))


def searched(plain, quantized):
    plain, quantized = ({t.name: t for t in GGUFReader(path).tensors} for path in (plain, quantized))
    for name, dtype in [("blk.0.attn_q.weight", T.Q4_K), ("blk.1.ffn_down.weight", T.Q6_K)]:
        assert plain[name].tensor_type == T.F16 and quantized[name].tensor_type == dtype
        (OUT / f"{dtype.name.lower()}.rows").write_bytes(plain[name].data[:8].tobytes())
        (OUT / f"{dtype.name.lower()}.quantized").write_bytes(quantized[name].data[:8].tobytes())


if __name__ == "__main__":
    searched(*sys.argv[1:]) if sys.argv[1:] else main()
