//! A small byte-level BPE tokenizer that can spell every text, padded to a model's vocabulary.

use super::shapes::Arch;
use lean_engine::gguf::{Value, Writer};
use lean_engine::{Error, Result};

const CONTROLS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const END: u32 = 2;
/// Enough to show that merging works.
const MERGES: [&str; 20] = [
    "Ġ t", "Ġ a", "h e", "i n", "r e", "o n", "Ġt he", "e r", "Ġ s", "a t", "Ġ w", "Ġ o", "e n", "Ġ c",
    "i t", "i s", "a n", "o r", "e s", "an d",
];
const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// GGUF's token types.
const NORMAL: i64 = 1;
const CONTROL: i64 = 3;
const UNUSED: i64 = 5;

pub fn write(w: &mut Writer, arch: Arch, vocab: u64) -> Result<()> {
    let mut tokens: Vec<String> = CONTROLS.map(String::from).to_vec();
    tokens.extend((0..=255).map(|b| letter(b).to_string()));
    tokens.extend(MERGES.iter().map(|m| m.replace(' ', "")));
    let mut types = vec![CONTROL; CONTROLS.len()];
    types.resize(tokens.len(), NORMAL);
    let vocab =
        usize::try_from(vocab).map_err(|_| Error::invalid("--shape", "too large for this machine"))?;
    tokens.extend((tokens.len()..vocab).map(|i| format!("[PAD{i}]")));
    types.resize(tokens.len(), UNUSED);
    w.set("tokenizer.ggml.model", "gpt2")?;
    let pre = match arch {
        Arch::Llama => "llama-bpe",
        Arch::Qwen2 | Arch::Qwen3 => "qwen2",
        Arch::Lfm2 => "lfm2",
        Arch::Gemma3 => "gpt-2",
    };
    w.set("tokenizer.ggml.pre", pre)?;
    w.set("tokenizer.ggml.tokens", tokens)?;
    w.set("tokenizer.ggml.token_type", Value::Ints(types))?;
    w.set("tokenizer.ggml.merges", MERGES.map(String::from).to_vec())?;
    w.set("tokenizer.ggml.bos_token_id", 0u32)?;
    w.set("tokenizer.ggml.eos_token_id", END)?;
    w.set("tokenizer.ggml.add_bos_token", false)?;
    w.set("tokenizer.chat_template", CHAT_TEMPLATE)
}

/// The printable character that stands for a byte: itself where it is one, otherwise the next free one from U+0100
/// on (GPT-2's `bytes_to_unicode`).
fn letter(byte: u8) -> char {
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return byte.into();
    }
    let before = (0..byte).filter(|&b| !printable(b)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_gpt_2s() {
        let cases =
            [(b' ', 'Ġ'), (b'\n', 'Ċ'), (b'a', 'a'), (0xff, 'ÿ'), (0xad, '\u{143}'), (0, 'Ā'), (127, 'ġ')];
        for (byte, expected) in cases {
            assert_eq!(letter(byte), expected, "{byte}");
        }
        let mut all: Vec<char> = (0..=255).map(letter).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 256);
    }
}
