#!/usr/bin/env python3
"""Writes tests/fixtures/tokenizer/: a small tokenizer.json of each family, and the ids that transformers gives.

    pip install transformers==5.24.0 tokenizers==0.23.3 jinja2==3.1.6 gguf==0.19.0
    tests/reference/tokenizer_goldens.py [SmolLM2-135M-Instruct.Q4_1.gguf]
    tests/reference/tokenizer_goldens.py --of MODEL.gguf OUT.json      only the ids of that file's vocabulary

The families differ in how they cut text into words; vocabulary and merges are trained here on the texts themselves.
With the real model's file as argument, also writes the ids of its vocabulary (real-smollm2.json).
"""

import json
import pathlib
import random
import sys

from hard_texts import texts
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from transformers.tokenization_utils_base import generate_merges

OUT = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "tokenizer"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def split(regex):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False),
    ])


def gpt2():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)


def smollm():
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2()])


# pre-tokenizer, normalizer, ignore_merges, bos in front
FAMILIES = {
    "gpt-2": (gpt2, None, False, None),
    "smollm": (smollm, None, False, None),
    "llama-bpe": (lambda: split(LLAMA3), None, True, "<|im_start|>"),
    "lfm2": (lambda: split(LLAMA3), None, True, "<|im_start|>"),
    "qwen2": (lambda: split(QWEN2), normalizers.NFC, False, None),
    # Not in any GGUF: what else a tokenizer.json may say.
    "flags": (lambda: pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True), normalizers.NFKC, False, None),
}


def added(name):
    tokens = [AddedToken(t, special=True, normalized=False) for t in ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]]
    tokens += [AddedToken(t, special=False, normalized=False) for t in ["<think>", "</think>"]]
    if name == "flags":
        tokens += [
            AddedToken("family", special=False, normalized=False, single_word=True),
            AddedToken("[INST]", special=False, normalized=False, lstrip=True, rstrip=True),
            AddedToken("world", special=False, normalized=True, rstrip=True),
            AddedToken("ine", special=False, normalized=True, lstrip=True),
        ]
    return tokens


def train(name):
    pre, normalizer, ignore_merges, bos = FAMILIES[name]
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre()
    tokenizer.decoder = decoders.ByteLevel()
    if normalizer:
        tokenizer.normalizer = normalizer()
    trainer = trainers.BpeTrainer(
        vocab_size=900, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), min_frequency=1,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    if ignore_merges:
        # A token that no merge leads to: found as a whole word only.
        data = json.loads(tokenizer.to_str())
        data["model"]["vocab"]["ĠDonaudampfschifffahrt"] = len(data["model"]["vocab"])
        tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens(added(name))
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", pair=f"{bos} $A $B", special_tokens=[(bos, tokenizer.token_to_id(bos))],
        )
    return tokenizer


def golden(fast, text):
    inner = fast.backend_tokenizer
    parsed = fast(text, add_special_tokens=False)["input_ids"]
    inner.encode_special_tokens = True
    plain = inner.encode(text, add_special_tokens=False).ids
    inner.encode_special_tokens = False
    return {"text": text, "ids": parsed, "plain": plain, "decoded": fast.decode(parsed, skip_special_tokens=True)}


EXTRA = [
    " Donaudampfschifffahrt x", "a [INST] b [INST]c", "family families family_ (family)", "hello world  !", "x  ﬁ fi",
    # What SentencePiece vocabularies treat in a way of their own.
    "▁ ▁▁ a▁b ▁▁▁▁x", "<table> <b>x</b></table> <table", "<0x0A> <0xZZ>", "<start_of_turn>user\nhi<end_of_turn>\n", "<bos><eos><unk><pad>",
    *("x" + " " * n + "y" for n in range(1, 36)), *("\n" * n for n in range(1, 34)), *("\t" * n + "z" for n in range(1, 12)), " \n  \n\n   \n",
]


def decodings(fast):
    """Random ids: incomplete and invalid UTF-8 among them, control tokens kept and left out."""
    rng = random.Random(7)
    size = len(fast)
    lists = [[rng.randrange(min(size, 520) if i % 2 else size) for _ in range(rng.randint(1, 12))] for i in range(80)]
    return [{"ids": ids, "kept": fast.decode(ids), "left_out": fast.decode(ids, skip_special_tokens=True)} for ids in lists]


def write(path, tokenizer, name, **more):
    fast = tokenizer
    if isinstance(tokenizer, Tokenizer):
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)
    cases = [golden(fast, text) for text in texts() + EXTRA]
    dump = lambda value: json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    lines = ",\n".join(map(dump, cases))
    decoded = ",\n".join(map(dump, decodings(fast)))
    head = dump({"family": name, **more})[:-1]
    path.write_text(f'{head},"decodings":[\n{decoded}\n],"cases":[\n{lines}\n]}}\n')


def gemma():
    """As transformers makes a Gemma tokenizer of a SentencePiece model: merges in the order of the pieces' scores."""
    from make_models import BYTE, CONTROL, NORMAL, USER_DEFINED, pieces

    found = pieces()
    spelled = [(t.replace(" ", "▁") if t.strip(" ") == "" else t, s, k) for t, s, k in found]
    vocab = {t: i for i, (t, _, _) in enumerate(spelled)}
    scores = {t: s if k == NORMAL else 0.0 for t, s, k in spelled if k in (NORMAL, USER_DEFINED)}
    merges = generate_merges(vocab, scores, skip_tokens=[t for t in vocab if t not in scores])
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    for kind in (CONTROL, USER_DEFINED):
        tokenizer.add_tokens([AddedToken(t, special=kind == CONTROL, normalized=False) for t, _, k in spelled if k == kind])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", vocab["<bos>"])],
    )
    # What a GGUF of it has besides: converters write the user-defined runs of ▁ as spaces.
    types = [k if k in (CONTROL, USER_DEFINED, BYTE) else NORMAL for _, _, k in spelled]
    return tokenizer, {"scores": [s for _, s, _ in spelled], "types": types, "tokens": [t for t, _, _ in found]}


def real(path):
    import gguf

    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    tokens, types = get("tokens"), get("token_type")
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = [tuple(merge.split(" ", 1)) for merge in get("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = smollm()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == 3])
    write(OUT / "real-smollm2.json", tokenizer, "smollm")


def of_gguf(path, out):
    from make_fixture import Gguf, build_tokenizer

    write(pathlib.Path(out), build_tokenizer(Gguf(path, weights=False)), pathlib.Path(path).stem)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--of"]:
        of_gguf(*sys.argv[2:])
        sys.exit()
    OUT.mkdir(parents=True, exist_ok=True)
    for name in FAMILIES:
        tokenizer = train(name)
        (OUT / f"{name}.tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
        write(OUT / f"{name}.json", tokenizer, name)
    tokenizer, more = gemma()
    (OUT / "gemma.tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    write(OUT / "gemma.json", tokenizer, "gemma", **more)
    if len(sys.argv) > 1:
        real(sys.argv[1])
