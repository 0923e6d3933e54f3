#!/usr/bin/env python3
"""Makes the reference fixture of a GGUF model: what transformers computes on exactly that file's weights.

    make_fixture.py MODEL.gguf [--cases FIXTURE.json] [--out OUT.json] [--check]

The cases (names, texts, chat messages) are read from an existing fixture, by default the one beside the model, so
that making it again changes nothing but what really changed; a model without one gets those of cases.json. --check compares instead of writing, numbers
with a tolerance of 1e-4 (float32 sums differ with the machine), and exits with 1 on a difference.

The weights are dequantised by the gguf package to float32 and put into the architecture's transformers model by
hand: transformers' own GGUF loader ignores `rope_freqs.weight`, assumes a head size of 128 for qwen3 and rejects some
types. The tokenizer is likewise built from the file's own vocabulary with the pre-tokenizer that it names.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_base import generate_merges

N_GEN = 48
TOP = 20
TOLERANCE = 1e-4
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # tokenizer.ggml.token_type

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


class Gguf:
    """Metadata and float32 weights of a file."""

    def __init__(self, path, weights=True):
        reader = GGUFReader(path)
        self.meta = {key: field.contents() for key, field in reader.fields.items()}
        self.arch = self.meta["general.architecture"]
        self.weights = {
            t.name: torch.from_numpy(np.array(dequantize(t.data, t.tensor_type), dtype=np.float32).reshape(tuple(map(int, t.shape[::-1]))))
            for t in (reader.tensors if weights else [])
        }

    def arch_key(self, key, default=None):
        return self.meta.get(f"{self.arch}.{key}", default)


# ---- model -------------------------------------------------------------------------------------------------------


def head_dim(g):
    size = g.arch_key("attention.key_length") or g.arch_key("rope.dimension_count")
    return size or g.arch_key("embedding_length") // g.arch_key("attention.head_count")


def common_config(g):
    return dict(
        vocab_size=g.weights["token_embd.weight"].shape[0],
        hidden_size=g.arch_key("embedding_length"),
        intermediate_size=g.arch_key("feed_forward_length"),
        num_hidden_layers=g.arch_key("block_count"),
        num_attention_heads=g.arch_key("attention.head_count"),
        max_position_embeddings=g.arch_key("context_length"),
        rope_parameters={"rope_type": "default", "rope_theta": g.arch_key("rope.freq_base", 10000.0)},
        tie_word_embeddings="output.weight" not in g.weights,
        attn_implementation="eager",
    )


def decoder_config(g):
    """llama, qwen2 and qwen3."""
    make = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config}
    return make[g.arch](
        **common_config(g),
        num_key_value_heads=g.arch_key("attention.head_count_kv"),
        head_dim=head_dim(g),
        rms_norm_eps=g.arch_key("attention.layer_norm_rms_epsilon"),
    )


def lfm2_config(g):
    kv_heads = g.arch_key("attention.head_count_kv")  # 0 marks a convolution layer
    return transformers.Lfm2Config(
        **common_config(g),
        num_key_value_heads=max(kv_heads),
        norm_eps=g.arch_key("attention.layer_norm_rms_epsilon"),
        conv_L_cache=g.arch_key("shortconv.l_cache"),
        layer_types=["full_attention" if n else "conv" for n in kv_heads],
        block_auto_adjust_ff_dim=False,
    )


def gemma3_config(g):
    """Every sixth layer is global, with a rope of its own, where the file does not say otherwise."""
    pattern = g.arch_key("attention.sliding_window_pattern") or 6
    layers = g.arch_key("block_count")
    kinds = ["full_attention" if i % pattern == pattern - 1 else "sliding_attention" for i in range(layers)]
    factor = g.arch_key("rope.scaling.factor")
    scaling = {"rope_type": "linear", "factor": factor} if factor else {"rope_type": "default"}
    common = common_config(g)
    common["rope_parameters"] = {
        "sliding_attention": {"rope_type": "default", "rope_theta": g.arch_key("rope.freq_base_swa", 10000.0)},
        "full_attention": {**scaling, "rope_theta": g.arch_key("rope.freq_base", 1000000.0)},
    }
    return transformers.Gemma3TextConfig(
        **common,
        num_key_value_heads=g.arch_key("attention.head_count_kv"),
        head_dim=head_dim(g),
        # The 27B model alone divides by another number; its files have no key for it.
        query_pre_attn_scalar=common["hidden_size"] // common["num_attention_heads"] if layers == 62 else head_dim(g),
        rms_norm_eps=g.arch_key("attention.layer_norm_rms_epsilon"),
        sliding_window=g.arch_key("attention.sliding_window"),
        layer_types=kinds,
        use_bidirectional_attention=False,
    )


DECODER_NAMES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
LFM2_NAMES = {
    **DECODER_NAMES,
    "attn_output": "self_attn.out_proj",
    "attn_q_norm": "self_attn.q_layernorm",
    "attn_k_norm": "self_attn.k_layernorm",
    "ffn_gate": "feed_forward.w1",
    "ffn_up": "feed_forward.w3",
    "ffn_down": "feed_forward.w2",
    "attn_norm": "operator_norm",
    "ffn_norm": "ffn_norm",
    "shortconv.conv": "conv.conv",
    "shortconv.in_proj": "conv.in_proj",
    "shortconv.out_proj": "conv.out_proj",
}
GEMMA3_NAMES = {
    **DECODER_NAMES,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
NAMES = {"lfm2": LFM2_NAMES, "gemma3": GEMMA3_NAMES}
CONFIGS = {"lfm2": lfm2_config, "gemma3": gemma3_config}
TOP_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "token_embd_norm.weight": "model.embedding_norm.weight",
    "output.weight": "lm_head.weight",
}


def unpermute(weight, heads):
    """llama's q and k rows lie in the file so that adjacent pairs rotate; transformers rotates halves."""
    rows = weight.shape[0] // heads
    return weight.reshape(heads, rows // 2, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def hf_name(g, name):
    if name in TOP_NAMES:
        return TOP_NAMES[name]
    _, layer, rest = name.split(".", 2)
    stem, kind = rest.rsplit(".", 1)
    return f"model.layers.{layer}.{NAMES.get(g.arch, DECODER_NAMES)[stem]}.{kind}"


def build_model(g):
    config = CONFIGS.get(g.arch, decoder_config)(g)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    state = {}
    for name, weight in g.weights.items():
        if name == "rope_freqs.weight":
            continue
        if g.arch == "llama" and name.endswith(("attn_q.weight", "attn_k.weight")):
            kv = name.endswith("attn_k.weight")
            weight = unpermute(weight, config.num_key_value_heads if kv else config.num_attention_heads)
        if name.endswith("shortconv.conv.weight"):
            weight = weight.unsqueeze(1)
        if g.arch == "gemma3" and name.endswith("norm.weight"):
            weight = weight - 1.0  # the file has 1 + w, exactly
        state[hf_name(g, name)] = weight
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    if "rope_freqs.weight" in g.weights:
        rotary = model.model.rotary_emb
        base = g.arch_key("rope.freq_base")
        exponents = torch.arange(0, head_dim(g), 2, dtype=torch.int64).float() / head_dim(g)
        rotary.inv_freq = 1.0 / (base**exponents) / g.weights["rope_freqs.weight"]
    return model.eval()


# ---- tokenizer ---------------------------------------------------------------------------------------------------


def pre_tokenizer(name):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    if name == "smollm":
        digits = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    if name in ("default", "gpt-2"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    split = {"llama-bpe": LLAMA3_SPLIT, "lfm2": LLAMA3_SPLIT, "qwen2": QWEN2_SPLIT}[name]
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), "isolated"), byte_level])


def byte_level_tokenizer(g, tokens):
    pre = g.meta["tokenizer.ggml.pre"]
    merges = [tuple(m.split(" ")) for m in g.meta["tokenizer.ggml.merges"]]
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=pre in ("llama-bpe", "lfm2")))
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def pieces_tokenizer(g, tokens, types):
    """As transformers' GemmaTokenizer; merges follow from the scores (user-defined pieces have 0 in the original)."""
    vocab = {token: i for i, token in enumerate(tokens)}
    scores = g.meta["tokenizer.ggml.scores"]
    text = {t: s if k == NORMAL else 0.0 for t, s, k in zip(tokens, scores, types) if k in (NORMAL, USER_DEFINED)}
    merges = generate_merges(vocab, text, skip_tokens=[t for t in tokens if t not in text])
    unknown = tokens[g.meta["tokenizer.ggml.unknown_token_id"]]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    replace, decoder = normalizers.Replace(" ", "▁"), [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if g.meta.get("tokenizer.ggml.add_space_prefix", True):
        replace = normalizers.Sequence([normalizers.Prepend("▁"), replace])
        decoder.append(decoders.Strip(content=" ", left=1))
    tokenizer.normalizer = replace
    tokenizer.decoder = decoders.Sequence(decoder)
    return tokenizer


def build_tokenizer(g):
    tokens, types = g.meta["tokenizer.ggml.tokens"], g.meta["tokenizer.ggml.token_type"]
    if g.meta["tokenizer.ggml.model"] == "llama":
        # Converters write user-defined runs of ▁ as spaces.
        tokens = [t.replace(" ", "▁") if t.strip(" ") == "" else t for t in tokens]
        tokenizer = pieces_tokenizer(g, tokens, types)
    else:
        tokenizer = byte_level_tokenizer(g, tokens)
    for kind, special in ((CONTROL, True), (USER_DEFINED, False)):
        tokenizer.add_tokens([AddedToken(t, special=special, normalized=False) for t, k in zip(tokens, types) if k == kind])
    special = {}
    for name in ("bos", "eos"):
        if (i := g.meta.get(f"tokenizer.ggml.{name}_token_id")) is not None:
            special[f"{name}_token"] = tokens[i]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=g.meta.get("tokenizer.chat_template"),
        clean_up_tokenization_spaces=False,
        **special,
    )


def encode(g, tokenizer, text, add_special):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if add_special and g.meta.get("tokenizer.ggml.add_bos_token"):
        ids = [g.meta["tokenizer.ggml.bos_token_id"]] + ids
    return ids


# ---- cases -------------------------------------------------------------------------------------------------------


def r6(x):
    return round(float(x), 6)


@torch.no_grad()
def run_case(g, model, tokenizer, case):
    out = {"name": case["name"]}
    if "messages" in case:
        out["messages"] = case["messages"]
        text = tokenizer.apply_chat_template(case["messages"], tokenize=False, add_generation_prompt=True)
    else:
        text = case["text"]
    out["text"] = text
    out["add_special"] = case["add_special"]
    ids = encode(g, tokenizer, text, case["add_special"])
    out["input_ids"] = ids
    out["decoded"] = tokenizer.decode(ids)

    result = model(torch.tensor([ids]), use_cache=True)
    logits = result.logits[0]
    last = logits[-1]
    values, order = torch.sort(last, descending=True, stable=True)
    out["prefill_top"] = [[int(i), r6(v)] for i, v in zip(order[:TOP], values[:TOP])]
    out["prefill_logsumexp"] = r6(torch.logsumexp(last, -1))
    out["prompt_argmax"] = logits.argmax(-1).tolist()
    nll = -torch.log_softmax(logits[:-1], -1).gather(1, torch.tensor(ids[1:])[:, None])
    out["prompt_mean_nll"] = r6(nll.mean()) if len(ids) > 1 else None

    greedy, top, gap, second = [], [], [], []
    for step in range(N_GEN):
        best = torch.topk(last, 2)
        greedy.append(int(best.indices[0]))
        top.append(r6(best.values[0]))
        gap.append(r6(best.values[0] - best.values[1]))
        second.append(int(best.indices[1]))
        if step + 1 < N_GEN:
            result = model(torch.tensor([[greedy[-1]]]), cache=result.past_key_values, use_cache=True)
            last = result.logits[0, -1]
    eos = g.meta.get("tokenizer.ggml.eos_token_id")
    out["greedy_ids"] = greedy
    out["greedy_top_logit"] = top
    out["greedy_gap"] = gap
    out["greedy_second"] = second
    out["min_gap"] = min(gap)
    out["first_eos"] = greedy.index(eos) if eos in greedy else None
    out["greedy_text"] = tokenizer.decode(greedy)
    return out


def make(path, cases):
    g = Gguf(path)
    model, tokenizer = build_model(g), build_tokenizer(g)
    return {
        "format": "lean-ref-1",
        "gguf": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "arch": g.arch,
        "pre": g.meta.get("tokenizer.ggml.pre", "default"),
        "reference": {
            "transformers": transformers.__version__,
            "torch": torch.__version__,
            "dtype": "float32",
            "attn": "eager",
            "device": "cpu",
            "kv_cache": True,
        },
        "eos_token_ids": [g.meta["tokenizer.ggml.eos_token_id"]],
        "n_gen": N_GEN,
        # A base model has no template to render a conversation with.
        "cases": [run_case(g, model, tokenizer, c) for c in cases if "messages" not in c or tokenizer.chat_template],
    }


def differences(want, got, at=""):
    """Where two fixtures differ. Returns the places, and the largest difference between numbers."""
    if isinstance(want, float) or isinstance(got, float):
        if not (isinstance(want, (int, float)) and isinstance(got, (int, float))):
            return [f"{at}: {want!r} became {got!r}"], 0.0
        delta = abs(want - got)
        return ([f"{at}: {want} became {got}"] if delta > TOLERANCE else []), delta
    if isinstance(want, dict) and isinstance(got, dict):
        pairs = [(f"{at}.{k}", want.get(k), got.get(k)) for k in {**want, **got}]
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        pairs = [(f"{at}[{i}]", w, h) for i, (w, h) in enumerate(zip(want, got))]
    else:
        return ([f"{at}: {want!r} became {got!r}"] if want != got else []), 0.0
    found, worst = [], 0.0
    for place, w, h in pairs:
        more, delta = differences(w, h, place)
        found, worst = found + more, max(worst, delta)
    return found, worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--cases", type=Path, help="a fixture whose cases are taken (default: the one beside the model)")
    parser.add_argument("--out", type=Path, help="where the fixture goes (default: beside the model)")
    parser.add_argument("--check", action="store_true", help="compare with --out instead of writing it")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    out = args.out or args.model.with_suffix(".json")
    cases = args.cases or (out if out.exists() else Path(__file__).with_name("cases.json"))
    old = json.loads(cases.read_text())
    fixture = make(args.model, old["cases"])
    keep = cases == out
    # Notes that are not computed (such as the RoPE scaling that the model was made with) stay.
    fixture = {**{k: v for k, v in old.items() if k not in fixture}, **fixture} if keep else fixture
    if not args.check:
        out.write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")) + "\n")
        print(f"wrote {out}: {len(fixture['cases'])} cases")
        return 0
    committed = json.loads(out.read_text())
    committed.pop("reference"), fixture.pop("reference")
    found, worst = differences(committed, fixture)
    for line in found[:20]:
        print(f"{out.name}{line}")
    print(f"{out.name}: {len(fixture['cases'])} cases, {len(found)} differences, largest between numbers {worst:.1e}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
