"""Texts on which tokenizers differ, shared by the golden scripts. Deterministic."""

import random

TEXTS = [
    "", " ", "a", "Hello, world!", "The quick brown fox jumps over the lazy dog.",
    # code
    "def f(x):\n    return [i**2 for i in range(x) if i % 2 == 0]\n\n\nclass A:\n\tpass\r\n",
    "fn main() { let v: Vec<u8> = b\"\\x00\\xff\".to_vec(); println!(\"{v:?}\"); } // done",
    "<div class=\"a b\">&nbsp;</div>\n<!-- x --><script>if(a&&b||!c){d?.e??f}</script>",
    "SELECT * FROM t WHERE a<>'b''c' AND d>=1e-10;--x",
    "#include <stdio.h>\r\n#define X(a,b) ((a)##(b))\r\n",
    "{\"id\":1,\"tags\":[\"a\",\"b\"],\"x\":null,\"y\":-1.5e+10}",
    # numbers
    "0 1 12 123 1234 12345 123456 1234567", "3.14159 1,000,000 0xDEADBEEF 1e-10 ½ ² ³ Ⅷ ①", "v2.0.1-rc3",
    "٠١٢٣ ٤٥٦ ۱۲۳ १२३ １２３ 五十", "in 2024-07-31T12:34:56.789Z", "a1b2c3 4d5e6f", "$1,234.56 100% #42 @7",
    # whitespace
    "  leading", "trailing  ", "a  b   c    d", "\n", "\n\n", "\n\n\nx\n\n", "\t\ttabs\t x", " \n \n  \n", "a\r\nb\rc\n",
    "a \n b  \n  c", "    if x:\n        y\n", "x" + " " * 40 + "y", " " * 100, "\n" * 30, "a\u00a0b\u00a0\u00a0c", "a\u3000b\u2003c\u200ad",
    "a\u2028b\u2029c\u0085d", "a\u200bb\ufeffc", "\u000b\u000c\u001c\u001d", "tab\tnewline\nboth\t\n\t end ",
    # contractions
    "I'm you're he's we've they'll I'd can't", "I'M YOU'RE HE'S WE'VE THEY'LL I'D CAN'T", "I’m you’re", "'s 'S 'ſ 't'T 'x' ''' 'll'LL",
    "rock'n'roll o'clock 'tis", " 's", "a's's's",
    # scripts
    "你好，世界！这是一个测试。", "日本語のテキストとカタカナ、ひらがな。", "한국어 텍스트입니다. 조사는 어떻게?", "Привет, мир! Ёлка съела.",
    "مرحبا بالعالم، كيف حالك؟", "في عام ١٤٤٥ هـ", "שלום עולם", "नमस्ते दुनिया क्षत्रिय", "สวัสดีชาวโลก", "Γειά σου Κόσμε", "გამარჯობა",
    "Tiếng Việt có nhiều dấu", "İstanbul ıŞİK ß ẞ ﬁ ﬂ", "Zażółć gęślą jaźń", "ÀÉÎÕÜ àéîõü ñ ç",
    # combining marks: composed and not
    "é é Å Å ñ ñ 각 각", "e\u0301\u0301 o\u0308\u0304", "ﷺ ﷻ ½ ﬀ", "a\u0300\u0316 \u0301x", "\u0958 \u2126 \u212b",
    # emoji
    "🙂🚀🎉", "👨‍👩‍👧‍👦 family", "👍🏽👩🏿‍💻", "🇩🇪🇫🇷", "❤️ ☺︎ ✈️", "1️⃣ #️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "a🙂b 🙂 c",
    # symbols
    "—–‐ “quotes” ‘single’ … • · ° © ® ™ € £ ¥", "→ ⇒ ∀∃∈∉ ∑∏∫ √∞ ≈≠≤≥", "``` ~~~ *** ### --- === ___", "!!!???...,,,;;;:::",
    "(((a)))[[[b]]]{{{c}}}", "C:\\Users\\x\\y.txt /usr/bin/env", "https://example.com/a?b=c&d=%20#e", "me@example.com, x+y@z.io",
    "snake_case camelCase PascalCase kebab-case SCREAMING_CASE", "_a__b___c", "a/b\\c|d", "$x^2 + \\frac{1}{2}$",
    # control characters and rare planes
    "\u0000\u0001\u0002\u007f", "\u0080\u009f", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒻𝓊𝓃", "𐍈𐌰 𒀀 𓀀", "\ue000\uf8ff \U000f0000", "\ufffd\ufffe", "\U0010ffff",
    # control and user-defined tokens in text
    "<|im_start|>user\nhi<|im_end|>", "a<|im_end|>b", "<|im_start|", "<|im_start|><|im_start|>", " <|im_end|> ", "<think>why</think>",
    "<think></think><think>", "x<think> y", "<|endoftext|>", "<|IM_END|>", "<<|im_end|>>", "<|im_<|im_end|>end|>", "</s><s>[INST]",
    # long words
    "a" * 200, "ab" * 100, "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "0" * 50, "=" * 80,
    "pneumonoultramicroscopicsilicovolcanoconiosis " * 3,
]

POOLS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", "  ", "\n", "\t", "\r\n", ".,;:!?'\"()[]{}<>|-_=+*/\\@#$%^&~`",
    "éèüößñçåøÅ", "'s", "'t", "'LL", "你好世界日本語", "مرحبا٠١٢", "привет", "🙂👨\u200d👩🏽", "e\u0301a\u0308", "\u00a0\u3000", "½²Ⅷ", "नमस्ते",
]


def texts():
    rng = random.Random(20240731)
    made = []
    for _ in range(150):
        text = ""
        for _ in range(rng.randint(1, 14)):
            pool = rng.choice(POOLS)
            text += pool if rng.random() < 0.3 and len(pool) < 4 else "".join(rng.choice(pool) for _ in range(rng.randint(1, 6)))
        made.append(text)
    return TEXTS + made
