#!/usr/bin/env python3
"""Do llama.cpp and transformers read the files that lean writes, and compute from them what lean computes?

    pip install --no-deps xllamacpp==2026.10.11549       # llama.cpp, built; besides requirements.txt
    cargo build --workspace --bins --lib
    tests/reference/peers.py [--lean target/debug/lean] [--library target/debug/liblean.so] [MODEL.gguf...] > docs/runs/peers.txt

Three tables: what `lean convert` makes of the model folders in tests/fixtures/hf, against the numbers of transformers
beside them; what `lean quantize` makes of a random model of each family in every type, lean (through its C library)
against both; and any model files given, lean against llama.cpp.

llama.cpp tells the logarithms of the probabilities of the best tokens. A difference is the root mean square of that of 50
of them after each of 24 prefixes, divided by the standard deviation of lean's logits. llama.cpp rounds what it
multiplies with quantised weights to 8 bits, with half-precision ones to 16, and Gemma's activation to 16, so it cannot
be as near as float32 is. The exit status is 1 if a difference is larger than explained by that.
"""

import argparse
import ctypes
import json
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers
import xllamacpp

ROOT = Path(__file__).resolve().parent.parent.parent
HF = ROOT / "tests" / "fixtures" / "hf"
FAMILIES = ["llama", "qwen2", "qwen3", "lfm2", "gemma3"]
TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k_m", "q5_k_m", "q6_k"]
# Largest differences: of transformers in float32, and of llama.cpp by what it rounds.
EXACT = 1e-5
ROUNDED = {"f32": 2e-3, "f16": 2e-3, "bf16": 2e-2}
QUANTISED = 1e-1
BEST = 50
# What transformers' reader of GGUF files leaves out or has wrong: not the files' fault.
NOT_BY_TRANSFORMERS = {"llama": "ignores rope_freqs.weight", "qwen3": "assumes a head size of 128"}

failed = 0


def row(*cells, ok=None):
    global failed
    failed += ok is False
    print("  ".join(str(c).ljust(w) for c, w in zip(cells, (28, 14, 12, 12))).rstrip() + ("" if ok is not False else "   WRONG"), flush=True)


class Lean:
    """The C library, as much of it as gives logits."""

    def __init__(self, library):
        self.c = ctypes.CDLL(str(library))
        self.c.lean_error_message.restype = ctypes.c_char_p
        self.c.lean_model_info.restype = ctypes.c_int

    def call(self, name, *arguments):
        error = ctypes.c_void_p()
        if getattr(self.c, name)(*arguments, ctypes.byref(error)):
            raise RuntimeError(self.c.lean_error_message(error, None).decode())

    def ids(self, path, text):
        model, context, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        name, text, ids = str(path).encode(), text.encode(), (ctypes.c_uint32 * 4096)()
        self.call("lean_model_load", name, ctypes.c_size_t(len(name)), None, ctypes.byref(model))
        self.call("lean_context_new", ctypes.byref(context))
        self.call("lean_context_add_text", context, text, ctypes.c_size_t(len(text)))
        self.call("lean_model_tokenize", model, context, ids, ctypes.c_size_t(len(ids)), ctypes.byref(count))
        self.c.lean_context_free(context)
        self.c.lean_model_free(model)
        return list(ids[: count.value])

    def logits(self, path, ids):
        """After each of the ids, `[len(ids)][vocab]`."""
        model, session, info = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_char_p()
        name = str(path).encode()
        self.call("lean_model_load", name, ctypes.c_size_t(len(name)), None, ctypes.byref(model))
        self.call("lean_model_info", model, ctypes.byref(info), None)
        vocab = json.loads(info.value)["vocab_size"]
        self.call("lean_session_new", model, None, ctypes.byref(session))
        out = np.empty((len(ids), vocab), np.float32)
        for i, one in enumerate(ids):
            where = out[i].ctypes.data_as(ctypes.c_void_p)
            self.call("lean_session_forward", session, (ctypes.c_uint32 * 1)(one), ctypes.c_size_t(1), where, ctypes.c_size_t(vocab), None)
        self.c.lean_session_free(session)
        self.c.lean_model_free(model)
        return out


class LlamaCpp:
    """One model, asked for the best tokens after a prefix."""

    def __init__(self, path):
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel, params.n_gpu_layers = 1024, 1, 0
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.warmup, params.verbosity = False, -1
        # Keys and values as float32, as lean has them.
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self.server = xllamacpp.Server(params)

    def best(self, prompt):
        """The best token and the logarithms of the probabilities of the best ones; of how many tokens the prompt was.
        A token that is part of a character only is not told: then `None` (a "-" in the table)."""
        reply = self.server.handle_completions(
            {"prompt": prompt, "max_tokens": 1, "temperature": 0, "top_k": 1, "logprobs": BEST, "n_probs": BEST, "cache_prompt": False})
        told = (reply["choices"][0]["logprobs"] or {}).get("content")
        count = reply["usage"]["prompt_tokens"]
        if not told:
            return None, {}, count
        return told[0]["id"], {t["id"]: t["logprob"] for t in told[0]["top_logprobs"]}, count


def transformers_logits(path, ids):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    for layer in model.model.layers:
        # The reader takes Gemma's head size to be 256 here, whatever the file says.
        if model.config.model_type.startswith("gemma3"):
            layer.self_attn.scaling = layer.self_attn.head_dim**-0.5
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def case_of(peer, case):
    """Largest difference of the 20 best after the prompt, equal greedy tokens of how many that were told."""
    largest, equal, told = 0.0, 0, 0
    for k, wanted in enumerate(case["greedy_ids"]):
        token, found, _ = peer.best(case["input_ids"] + case["greedy_ids"][:k])
        told += token is not None
        equal += token == wanted
        for i, x in case["prefill_top"] if k == 0 and found else []:
            largest = max(largest, abs(found[i] - (x - case["prefill_logsumexp"])))
    return largest, equal, told


def converted(lean, folder):
    print("\nlean convert --type f32, read by llama.cpp, against transformers on the folder")
    row("model", "max |dlogp|", "greedy")
    for family in FAMILIES:
        path = folder / f"{family}.gguf"
        subprocess.run([lean, "convert", HF / family, path, "--type", "f32"], check=True, stdout=subprocess.DEVNULL)
        peer = LlamaCpp(path)
        for case in json.loads((HF / f"{family}.json").read_text())["cases"]:
            largest, equal, told = case_of(peer, case)
            row(f"{family}, {case['name']}", f"{largest:.1e}" if largest else "-", f"{equal}/{told}", ok=largest < 1e-2 and equal == told > 20)


def compare(name, dtype, path, lean, ids, with_transformers):
    ours, peer = lean.logits(path, ids), LlamaCpp(path)
    squares, equal, told = [], 0, 0
    for at in range(len(ids) - 24, len(ids)):
        token, found, _ = peer.best(ids[: at + 1])
        wanted = log_softmax(ours[at])
        told += token is not None
        equal += token == int(ours[at].argmax())
        squares += [(wanted[i] - x) ** 2 for i, x in found.items()]
    off, bound = float(np.sqrt(np.mean(squares)) / ours.std()), ROUNDED.get(dtype, QUANTISED)
    row(name, "llama.cpp", f"{off:.1e}", f"{equal}/{told}", ok=off < bound and told > 4)
    if with_transformers:
        theirs = transformers_logits(path, ids)
        off = float(np.sqrt(np.mean((ours - theirs) ** 2)) / ours.std())
        equal = int((ours.argmax(1) == theirs.argmax(1)).sum())
        row(name, "transformers", f"{off:.1e}", f"{equal}/{len(ids)}", ok=off < EXACT)


def quantised(binary, lean, folder):
    print("\nlean quantize of a random model of each family, lean against its peers")
    row("model", "peer", "difference", "same best")
    for family in FAMILIES:
        plain = folder / "plain.gguf"
        subprocess.run([binary, "synth", "--arch", family, "--shape", "tiny", "--type", "f32", plain], check=True, stdout=subprocess.DEVNULL)
        rng = random.Random(1)
        for dtype in TYPES:
            path = folder / f"{family}-{dtype}.gguf"
            subprocess.run([binary, "quantize", plain, path, "--type", dtype], check=True, stdout=subprocess.DEVNULL)
            ids = [rng.randrange(300, 900) for _ in range(64)]
            compare(f"{family}, {dtype}", dtype, path, lean, ids, family not in NOT_BY_TRANSFORMERS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lean", default=ROOT / "target" / "debug" / "lean", type=Path)
    parser.add_argument("--library", default=ROOT / "target" / "debug" / "liblean.so", type=Path)
    parser.add_argument("models", nargs="*", type=Path)
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    lean = Lean(arguments.library)
    version = subprocess.run([arguments.lean, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"{version}; xllamacpp {xllamacpp.__version__}; transformers {transformers.__version__}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        converted(arguments.lean, Path(folder))
        quantised(arguments.lean, lean, Path(folder))
    if arguments.models:
        print("\nmodel files, lean against llama.cpp")
        row("model", "peer", "difference", "same best")
    for path in arguments.models:
        text = "Everyone is permitted to copy and distribute verbatim copies of this license document. fn main() { let x = 42; }\n" * 3
        compare(path.name, None, path, lean, lean.ids(path, text)[:64], False)
    for family, why in NOT_BY_TRANSFORMERS.items():
        print(f"\ntransformers' own reader of GGUF was not asked for {family}: it {why}", end="")
    print(f"\n\n{failed} differences larger than allowed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
