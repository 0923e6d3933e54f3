#!/usr/bin/env python3
"""Makes tests/fixtures/hf: a tiny random model of each family as transformers saves it (config.json, model.safetensors
in bfloat16, tokenizer.json, tokenizer_config.json), and beside it what transformers computes from it in float32
(`<family>.json`, format `lean-ref-1`). `lean convert` has to make a GGUF of the folder that passes `lean verify`.

    python3 tests/reference/make_hf.py [FAMILY...]
"""

import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from make_fixture import LLAMA3_SPLIT, N_GEN, QWEN2_SPLIT, run_case  # noqa: F401
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Regex
from transformers import PreTrainedTokenizerFast

FIXTURES = Path(__file__).parent.parent / "fixtures"
OUT = FIXTURES / "hf"
VOCAB = 448
CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CORPUS = [
    "The quick brown fox jumps over the lazy dog, and then it does so again.",
    "def add(a, b):\n    return a + b\n\nprint(add(2, 40))\n",
    "One two three 1234567890; Zürich, naïve, déjà vu, 日本語, Привет мир.",
    '{"name": "Ada", "age": 36, "tags": ["math", "code"]}',
]
TEXTS = [
    ("prose", "The lazy fox has 1234 tags, and then some more."),
    ("code", "def name(a):\n    return {\"age\": 36}\n"),
    ("unicode", "日本 naïve Привет 🙂 ok"),
]
SIZES = dict(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, attn_implementation="eager",
)


def config(family):
    if family == "llama":
        rope = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
        return transformers.LlamaConfig(**SIZES, rms_norm_eps=1e-5, rope_parameters=rope, tie_word_embeddings=False)
    if family == "qwen2":
        return transformers.Qwen2Config(**SIZES, rms_norm_eps=1e-6, tie_word_embeddings=True)
    if family == "qwen3":
        return transformers.Qwen3Config(**SIZES, head_dim=32, rms_norm_eps=1e-6, tie_word_embeddings=True)
    if family == "lfm2":
        return transformers.Lfm2Config(
            **SIZES, norm_eps=1e-5, conv_L_cache=3, layer_types=["conv", "full_attention", "conv"],
            block_auto_adjust_ff_dim=False, tie_word_embeddings=True)
    return transformers.Gemma3TextConfig(
        **{**SIZES, "num_hidden_layers": 6}, head_dim=16, query_pre_attn_scalar=16, sliding_window=16,
        rms_norm_eps=1e-6, tie_word_embeddings=True)


def byte_level(family):
    tokenizer = Tokenizer(models.BPE(ignore_merges=family in ("llama", "lfm2")))
    split = QWEN2_SPLIT if family in ("qwen2", "qwen3") else LLAMA3_SPLIT
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), level])
    if family in ("qwen2", "qwen3"):
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - 20, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    controls = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokenizer.add_tokens([AddedToken(t, special=True, normalized=False) for t in controls])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in ["<think>", "</think>"]])
    bos = "<|endoftext|>" if family in ("llama", "lfm2") else None
    return tokenizer, bos, "<|im_end|>"


def sentence_piece():
    """As Gemma's: pieces with U+2581 for the space, bytes for what no piece spells."""
    control = ["<pad>", "<eos>", "<bos>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=160, special_tokens=control, show_progress=False)
    trained = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    trained.normalizer = normalizers.Replace(" ", "▁")
    trained.train_from_iterator(CORPUS, trainer)
    model = json.loads(trained.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)[len(control):]
    merged = ["".join(pair) for pair in model["merges"]]
    # Bytes come first, then what merges make in the order of the merges, then single characters, as in the real one.
    order = control + [f"<0x{b:02X}>" for b in range(256)] + merged + [p for p in pieces if p not in merged]
    vocab = {piece: i for i, piece in enumerate(dict.fromkeys(order))}
    tokenizer = Tokenizer(models.BPE(
        vocab, [tuple(m) for m in model["merges"]], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    added = control + ["<|im_start|>", "<|im_end|>"]
    tokenizer.add_tokens([AddedToken(t, special=True, normalized=False) for t in added])
    return tokenizer, "<bos>", "<eos>"


def add_bos(tokenizer, bos):
    """Says in tokenizer.json that contexts start with BOS."""
    i = tokenizer.token_to_id(bos)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, i)])


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for family in sys.argv[1:] or ["llama", "qwen2", "qwen3", "lfm2", "gemma3"]:
        torch.manual_seed(5 if family == "lfm2" else 3)  # leads of the greedy tokens above 0.002
        tokenizer, bos, eos = sentence_piece() if family == "gemma3" else byte_level(family)
        assert tokenizer.get_vocab_size() <= VOCAB, tokenizer.get_vocab_size()
        if bos:
            add_bos(tokenizer, bos)
        model = transformers.AutoModelForCausalLM.from_config(config(family), dtype=torch.float32)
        for name, weight in model.named_parameters():
            shift = 0.0 if family == "gemma3" or "norm" not in name else 1.0
            deviation = 0.25 if weight.dim() == 1 else 0.3 if "conv.conv" in name else 1.5 * weight.shape[-1] ** -0.5
            weight.data = (torch.randn_like(weight) * deviation + shift).bfloat16().float()
        model.tie_weights()
        folder = OUT / family
        shutil.rmtree(folder, ignore_errors=True)
        model.bfloat16().save_pretrained(folder)
        (folder / "generation_config.json").unlink(missing_ok=True)
        fast = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, chat_template=CHATML, clean_up_tokenization_spaces=False, eos_token=eos,
            **({"bos_token": bos} if bos else {}))
        fast.save_pretrained(folder)

        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
        meta = {"tokenizer.ggml.eos_token_id": tokenizer.token_to_id(eos)}
        if bos:
            meta |= {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.bos_token_id": tokenizer.token_to_id(bos)}
        g = type("Gguf", (), {"meta": meta})()
        cases = [{"name": n, "text": t, "add_special": True} for n, t in TEXTS]
        cases.append({"name": "chat", "messages": [{"role": "user", "content": "Hello 42!"}], "add_special": False})
        fixture = {
            "format": "lean-ref-1",
            "gguf": f"what lean convert makes of {family}",
            "reference": {"transformers": transformers.__version__, "torch": torch.__version__, "dtype": "float32",
                          "attn": "eager", "device": "cpu", "kv_cache": True},
            "n_gen": N_GEN,
            "cases": [run_case(g, model, fast, c) for c in cases],
        }
        out = OUT / f"{family}.json"
        out.write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")) + "\n")
        print(family, [round(c["min_gap"], 4) for c in fixture["cases"]])


if __name__ == "__main__":
    main()
