#!/usr/bin/env python3
"""Makes the LoRA fixtures in tests/fixtures/adapters: random adapters and what transformers with PEFT computes.

    make_adapters.py [--check]

For each adapter: NAME/adapter_config.json and NAME/adapter_model.safetensors as PEFT saves them, NAME.gguf with the same
numbers as llama.cpp's converter lays them out (where its format can say the same), and NAME.json, a fixture `lean-ref-1`
of the base model (cases of its own fixture) with the adapter active. --check compares the fixtures instead of writing.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path

import gguf
import peft
import torch
import transformers
from safetensors.torch import load_file

import make_fixture as base

ROOT = Path(__file__).resolve().parents[2] / "tests/fixtures"
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
N_CASES = 3

# What differs among them: family (llama's q and k rows are permuted in GGUF), which modules, ranks, alphas, rsLoRA.
ADAPTERS = {
    "llama-all-r4": ("llama-hd64-tied.s1.q4_1", 11, dict(r=4, lora_alpha=8, target_modules=ALL)),
    "qwen2-all-r4": ("qwen2-hd64-tied.s1.q4_k_m", 12, dict(r=4, lora_alpha=8, target_modules=ALL)),
    "llama-rslora-patterns": (
        "llama-hd128-untied.s1.q4_0",
        13,
        dict(
            r=3,
            lora_alpha=4,
            use_rslora=True,
            target_modules=["q_proj", "k_proj", "o_proj", "up_proj"],
            rank_pattern={"k_proj": 2, "^model.layers.0.mlp.up_proj": 6},
            alpha_pattern={"layers.1.self_attn.q_proj": 9},
        ),
    ),
}
NAMES = {hf: stem for stem, hf in base.DECODER_NAMES.items()}


def permute(weight, heads):
    """llama.cpp's order of q and k rows: the inverse of make_fixture.unpermute."""
    rows = weight.shape[0] // heads
    return weight.reshape(heads, 2, rows // 2, -1).swapaxes(1, 2).reshape(weight.shape)


def make_peft(model, seed, settings):
    """An adapter whose B is random, too, and strong enough that greedy tokens change."""
    torch.manual_seed(seed)
    adapted = peft.get_peft_model(model, peft.LoraConfig(**settings, bias="none", task_type="CAUSAL_LM"))
    for name, parameter in adapted.named_parameters():
        if "lora_A" in name or "lora_B" in name:
            # Half precision numbers, so that a file in any float type holds the same.
            value = torch.randn(parameter.shape) * (0.08 if "lora_A" in name else 0.15)
            parameter.data = value.half().float()
    return adapted.eval()


def write_gguf(path, g, config, tensors, alpha):
    writer = gguf.GGUFWriter(path, g.arch)
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(alpha))
    for name, value in tensors.items():
        module, part = name.removeprefix("base_model.model.model.layers.").removesuffix(".weight").rsplit(".", 1)
        layer, module = module.split(".", 1)
        stem = NAMES[module]
        if part == "lora_B" and g.arch == "llama" and stem in ("attn_q", "attn_k"):
            value = permute(value, config.num_key_value_heads if stem == "attn_k" else config.num_attention_heads)
        writer.add_tensor(f"blk.{layer}.{stem}.weight.{part.lower()}", value.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def slim(config_file):
    """The settings without the ones that are absent anyway or say where it was made."""
    config = json.loads(config_file.read_text())
    config["base_model_name_or_path"] = None
    config_file.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def make(name, folder):
    model_name, seed, settings = ADAPTERS[name]
    path = ROOT / "models" / f"{model_name}.gguf"
    g = base.Gguf(path)
    model, tokenizer = base.build_model(g), base.build_tokenizer(g)
    config = model.config
    cases = json.loads(path.with_suffix(".json").read_text())["cases"][:N_CASES]
    adapted = make_peft(model, seed, settings)
    adapted.save_pretrained(folder / name, save_embedding_layers=False)
    (folder / name / "README.md").unlink(missing_ok=True)
    slim(folder / name / "adapter_config.json")
    tensors = load_file(folder / name / "adapter_model.safetensors")
    if not (settings.get("use_rslora") or settings.get("alpha_pattern")):
        write_gguf(folder / f"{name}.gguf", g, config, tensors, settings["lora_alpha"])
    fixture = {
        "format": "lean-ref-1",
        "gguf": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "arch": g.arch,
        "adapter": name,
        "pre": g.meta["tokenizer.ggml.pre"],
        "reference": {"transformers": transformers.__version__, "torch": torch.__version__, "peft": peft.__version__},
        "eos_token_ids": [g.meta["tokenizer.ggml.eos_token_id"]],
        "n_gen": base.N_GEN,
        "cases": [base.run_case(g, adapted, tokenizer, c) for c in cases],
    }
    plain = json.loads(path.with_suffix(".json").read_text())["cases"][:N_CASES]
    same = sum(a["greedy_ids"] == b["greedy_ids"] for a, b in zip(plain, fixture["cases"]))
    assert same == 0, f"{name} changes too little: {same} greedy continuations are the plain model's"
    out = folder / f"{name}.json"
    out.write_text(json.dumps(fixture, ensure_ascii=False, separators=(",", ":")) + "\n")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    committed = ROOT / "adapters"
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if args.check else committed
        folder.mkdir(exist_ok=True)
        for name in ADAPTERS:
            made = json.loads(make(name, folder).read_text())
            gaps = min(c["min_gap"] for c in made["cases"])
            if not args.check:
                print(f"wrote {name}: {len(made['cases'])} cases, smallest lead {gaps}")
                continue
            old = json.loads((committed / f"{name}.json").read_text())
            old.pop("reference"), made.pop("reference")
            found, worst = base.differences(old, made)
            failed += len(found)
            print(f"{name}: {len(found)} differences, largest between numbers {worst:.1e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
