#!/usr/bin/env python3
"""Makes small models with random weights, tests/fixtures/models/<name>.gguf: what the families, head sizes, head ratios
and weight formats need that the other models there do not cover. The fixture of each is then made by make_fixture.py.

    make_models.py [NAME...]

Weights are as in the other models there: normally distributed so that activations keep their size, norms 1 +- 0.25.
The tokenizer is copied from a model of that folder, except SentencePiece's, which is trained here on hard_texts.py.
"""

import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize
from hard_texts import texts
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

OUT = Path(__file__).resolve().parent.parent / "fixtures" / "models"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
VOCAB = 1024

GEMMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n'"
    " + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)

# arch, weights, seed, layers, hidden, ffn, heads, kv heads, head size, tied; other keys of the architecture
MODELS = {
    # Q5_1 at the head ratio of the 0.5B models.
    "qwen2-hd64-untied.s2.q5_1": ("qwen2", T.Q5_1, 2, 1, 224, 256, 14, 2, 64, False, {}),
    "qwen3-hd128-tied.s2.q8_0": ("qwen3", T.Q8_0, 2, 2, 128, 256, 8, 2, 128, True, {}),
    "llama-hd80-untied.s2.q4_0": ("llama", T.Q4_0, 2, 2, 160, 320, 2, 2, 80, False, {}),
    "llama-hd96-tied.s2.q5_0": ("llama", T.Q5_0, 2, 2, 192, 256, 4, 1, 96, True, {}),
    # One local layer of five and one global layer, as published models begin; the window is shorter than the prompts.
    # Q5_K, which the gguf package reads and does not write.
    "qwen3-hd64-tied.s2.q5_k": ("qwen3", T.Q5_K, 2, 2, 256, 256, 8, 1, 64, True, {}),
    # Weights that no block format rounds.
    "llama-hd64-untied.s2.f16": ("llama", T.F16, 2, 2, 96, 128, 2, 1, 64, False, {}),
    "qwen2-hd64-tied.s2.f32": ("qwen2", T.F32, 2, 2, 64, 128, 2, 2, 64, True, {}),
    "gemma3-hd256-tied.s2.q4_0": ("gemma3", T.Q4_0, 2, 6, 128, 256, 2, 1, 256, True, {"window": 16}),
    # Its own pattern and local base, and the linear scaling that the 4B model has.
    "gemma3-hd64-tied.s2.bf16": ("gemma3", T.BF16, 2, 4, 96, 128, 3, 1, 64, True, {"window": 33, "pattern": 2, "scaling": 8.0}),
}
DONORS = {"llama": "llama-hd64-tied.s1.q4_1", "qwen2": "qwen2-hd64-tied.s1.q4_k_m", "qwen3": "qwen2-hd64-tied.s1.q4_k_m"}
THETA = {"llama": 1e5, "qwen2": 1e6, "qwen3": 1e6, "gemma3": 1e6}


def q5_k(values):
    """Blocks of 256: for 32 values each a 6-bit scale and minimum and 5 bits a value; plain rounding."""
    groups = values.astype(np.float32).reshape(-1, 8, 32)
    low = np.minimum(groups.min(axis=2), 0.0)
    scale, low = (groups.max(axis=2) - low) / 31, -low
    d, dmin = ((x.max(axis=1, keepdims=True) / 63).astype(np.float16) for x in (scale, low))
    s, m = (np.rint(x / y.astype(np.float32)).astype(np.uint8).clip(0, 63) for x, y in ((scale, d), (low, dmin)))
    step = np.maximum(d.astype(np.float32) * s, 1e-30)[..., None]
    q = np.rint((groups + (dmin.astype(np.float32) * m)[..., None]) / step).clip(0, 31).astype(np.uint8)
    packed = np.empty((len(groups), 12), np.uint8)
    packed[:, :4], packed[:, 4:8] = s[:, :4] | (s[:, 4:] >> 4 << 6), m[:, :4] | (m[:, 4:] >> 4 << 6)
    packed[:, 8:] = s[:, 4:] & 15 | (m[:, 4:] & 15) << 4
    high = np.bitwise_or.reduce((q >> 4) << np.arange(8, dtype=np.uint8)[:, None], axis=1)
    low_bits = (q[:, 0::2] & 15 | (q[:, 1::2] & 15) << 4).reshape(-1, 128)
    blocks = np.concatenate([d.view(np.uint8), dmin.view(np.uint8), packed, high, low_bits], axis=1)
    return blocks.reshape(*values.shape[:-1], -1)


def encode(values, dtype):
    if dtype != T.Q5_K:
        return quantize(values, dtype)
    blocks = q5_k(values)
    error = np.linalg.norm(dequantize(blocks, dtype) - values) / np.linalg.norm(values)
    assert error < 0.05, f"Q5_K is off by {error}"
    return blocks


class Model:
    """A file being written."""

    def __init__(self, name):
        self.name = name
        self.arch, self.dtype, seed, self.layers, self.hidden, self.ffn, self.heads, self.kv, self.d, self.tied, self.more = MODELS[name]
        self.rng = np.random.default_rng(seed)
        self.out = GGUFWriter(OUT / f"{name}.gguf", self.arch)

    def key(self, kind, key, value):
        getattr(self.out, f"add_{kind}")(f"{self.arch}.{key}", value)

    def matrix(self, name, rows, cols, std=None):
        # Values larger than 1 / sqrt(cols) make the next token depend on more than the last one.
        values = self.rng.standard_normal((rows, cols), dtype=np.float32) * np.float32(std or 1.6 / math.sqrt(cols))
        self.out.add_tensor(name, encode(values, self.dtype), raw_dtype=self.dtype)

    def vector(self, name, n, mean, spread):
        self.out.add_tensor(name, (mean + spread * self.rng.standard_normal(n)).astype(np.float32))

    def norm(self, name, n):
        self.vector(f"{name}.weight", n, 1.0, 0.25)

    def keys(self):
        self.out.add_name(self.name)
        self.out.add_license("CC0-1.0")
        for key, value in [("context_length", 2048), ("embedding_length", self.hidden), ("block_count", self.layers),
                           ("feed_forward_length", self.ffn), ("attention.head_count", self.heads), ("attention.head_count_kv", self.kv),
                           ("attention.key_length", self.d), ("attention.value_length", self.d), ("rope.dimension_count", self.d)]:
            self.key("uint32", key, value)
        self.key("float32", "attention.layer_norm_rms_epsilon", 1e-6)
        self.key("float32", "rope.freq_base", THETA[self.arch])
        if self.arch == "gemma3":
            self.key("uint32", "attention.sliding_window", self.more["window"])
        if "pattern" in self.more:
            self.key("uint32", "attention.sliding_window_pattern", self.more["pattern"])
            self.key("float32", "rope.freq_base_swa", 2e4)
        if "scaling" in self.more:
            self.key("string", "rope.scaling.type", "linear")
            self.key("float32", "rope.scaling.factor", self.more["scaling"])

    def layer(self, i):
        b, head_norms = f"blk.{i}", self.arch in ("qwen3", "gemma3")
        self.norm(f"{b}.attn_norm", self.hidden)
        for part, heads in (("q", self.heads), ("k", self.kv), ("v", self.kv)):
            self.matrix(f"{b}.attn_{part}.weight", heads * self.d, self.hidden)
            if self.arch == "qwen2":
                self.vector(f"{b}.attn_{part}.bias", heads * self.d, 0.0, 0.5)
            if head_norms and part != "v":
                self.norm(f"{b}.attn_{part}_norm", self.d)
        self.matrix(f"{b}.attn_output.weight", self.hidden, self.heads * self.d)
        self.norm(f"{b}.ffn_norm", self.hidden)
        if self.arch == "gemma3":
            self.norm(f"{b}.post_attention_norm", self.hidden)
            self.norm(f"{b}.post_ffw_norm", self.hidden)
        for part, rows, cols in (("gate", self.ffn, self.hidden), ("up", self.ffn, self.hidden), ("down", self.hidden, self.ffn)):
            self.matrix(f"{b}.ffn_{part}.weight", rows, cols)

    def write(self):
        self.keys()
        spm(self.out) if self.arch == "gemma3" else copy_tokenizer(self.out, DONORS[self.arch])
        # Small where embeddings are scaled up or tied: the best next token would always be the last one.
        std = 0.06 if self.arch == "gemma3" else 0.2 if self.tied else 1.0
        self.matrix("token_embd.weight", VOCAB, self.hidden, std)
        for i in range(self.layers):
            self.layer(i)
        self.norm("output_norm", self.hidden)
        if not self.tied:
            self.matrix("output.weight", VOCAB, self.hidden)
        self.out.write_header_to_file()
        self.out.write_kv_data_to_file()
        self.out.write_tensors_to_file()
        self.out.close()


def copy_tokenizer(out, donor):
    for key, field in GGUFReader(OUT / f"{donor}.gguf").fields.items():
        if key.startswith("tokenizer."):
            kind = field.types[0]
            out.add_key_value(key, field.contents(), kind, field.types[1] if len(field.types) > 1 else None)


def pieces():
    """(piece, score, type) in order of id, laid out as Gemma's vocabulary."""
    control = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<start_of_turn>", "<end_of_turn>"]
    # Converters write the user-defined runs of spaces as spaces.
    user = ["\n" * n for n in range(1, 9)] + [" " * n for n in range(2, 12)] + ["<table>", "</table>", "<b>", "</b>"]
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "▁")
    # SentencePiece cuts at spaces and at digits when it trains; a run of ▁ is not merged with a word.
    trained.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\n+|▁{2,}|[0-9]"), "isolated"), pre_tokenizers.Split(Regex("▁[^▁]*"), "isolated"),
    ])
    fixed = len(control) + len(user) + 256 + len(user)
    corpus = [t for t in texts() if "<|" not in t]
    # The most frequent characters, chosen here: the trainer breaks ties differently each time.
    counts = Counter(c for t in corpus for c in trained.normalizer.normalize_str(t))
    alphabet = sorted(counts, key=lambda c: (-counts[c], c))[:250]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - fixed, show_progress=False, initial_alphabet=alphabet, limit_alphabet=len(alphabet))
    trained.train_from_iterator(corpus, trainer)
    learned = sorted(trained.get_vocab(), key=trained.get_vocab().get)
    learned = [t for t in learned if t not in user and t.strip("▁") != ""]
    # Characters come last in Gemma's, with the lowest scores; merges score by their order.
    merged, single = [t for t in learned if len(t) > 1], ["▁"] + [t for t in learned if len(t) == 1]
    out = [(t, -1000.0, CONTROL) for t in control] + [(t, -1000.0, USER_DEFINED) for t in user]
    out += [(f"<0x{i:02X}>", 0.0, BYTE) for i in range(256)]
    out += [(t, -float(i), NORMAL) for i, t in enumerate(merged + single)]
    return out + [(f"<unused{i}>", -1000.0, CONTROL) for i in range(VOCAB - len(out))]


def spm(out):
    tokens, scores, types = zip(*pieces())
    out.add_tokenizer_model("llama")
    out.add_tokenizer_pre("default")
    out.add_token_list(list(tokens))
    out.add_token_scores(list(scores))
    out.add_token_types(list(types))
    for name in ("pad", "eos", "bos", "unk"):
        getattr(out, f"add_{name}_token_id")(tokens.index(f"<{name}>"))
    out.add_add_bos_token(True)
    out.add_add_space_prefix(False)
    out.add_chat_template(GEMMA_TEMPLATE)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        Model(name).write()
        print(f"wrote {name}.gguf: {(OUT / name).with_name(name + '.gguf').stat().st_size} bytes")
