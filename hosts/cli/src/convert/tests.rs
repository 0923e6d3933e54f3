//! From a folder as transformers saves it to a GGUF that computes what transformers computes
//! (`tests/reference/make_hf.py`).

use super::*;
use crate::args::{Cli, Command};
use crate::commands::verify;
use clap::Parser;
use std::path::PathBuf;

fn fixtures() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/hf")).to_path_buf()
}

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("lean-convert-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn verify(model: &Path, fixture: &Path) -> Vec<verify::Row> {
    let cli = Cli::parse_from([
        "lean".as_ref(),
        "verify".as_ref(),
        "--model".as_ref(),
        model.as_os_str(),
        "--fixture".as_ref(),
        fixture.as_os_str(),
    ]);
    let Command::Verify(args) = cli.command else { panic!("another command") };
    verify::compare(&args).unwrap()
}

#[test]
fn converted_models_compute_what_transformers_computes() {
    let dir = folder("verify");
    for (family, mix) in [
        ("llama", Mix::F32),
        ("llama", Mix::Bf16),
        ("qwen2", Mix::Bf16),
        ("qwen3", Mix::Bf16),
        ("lfm2", Mix::Bf16),
        ("gemma3", Mix::Bf16),
    ] {
        let model = dir.join(format!("{family}.gguf"));
        let made = convert(&fixtures().join(family), &model, mix, &CancelToken::new()).unwrap();
        assert_eq!(made.arch, family);
        let rows = verify(&model, &fixtures().join(format!("{family}.json")));
        assert!(rows.len() >= 4 && rows.iter().all(|row| row.passed), "{family}: {rows:#?}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn every_family_and_type_is_accepted_by_the_engine() {
    let dir = folder("types");
    let model = dir.join("model.gguf");
    for family in ["llama", "qwen2", "qwen3", "lfm2", "gemma3"] {
        for (mix, dtype) in [(Mix::F16, DType::F16), (Mix::Q8_0, DType::Q8_0), (Mix::F32, DType::F32)] {
            convert(&fixtures().join(family), &model, mix, &CancelToken::new()).unwrap();
            let gguf = Gguf::open(&model, false).unwrap();
            assert_eq!(gguf.tensor("blk.1.ffn_up.weight").unwrap().dtype, Some(dtype), "{family}");
            assert_eq!(gguf.tensor("blk.1.ffn_norm.weight").unwrap().dtype, Some(DType::F32), "{family}");
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn folders_that_are_no_model_are_refused_and_leave_nothing() {
    let dir = folder("refused");
    let source = dir.join("source");
    let refused = |expected: &str| {
        let error = convert(&source, &dir.join("out.gguf"), Mix::F16, &CancelToken::new()).err().unwrap();
        assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), usize::from(source.exists()));
    };
    refused("is not a folder");
    std::fs::create_dir(&source).unwrap();
    refused("config.json");
    for file in ["config.json", "model.safetensors", "tokenizer.json"] {
        std::fs::copy(fixtures().join("llama").join(file), source.join(file)).unwrap();
    }
    let config = std::fs::read_to_string(source.join("config.json")).unwrap();
    for (from, to, expected) in [
        ("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", "blk.2."),
        ("\"num_hidden_layers\": 3", "\"num_hidden_layers\": 4", "missing"),
        ("\"hidden_size\": 64", "\"hidden_size\": 128", "shape"),
        ("\"num_attention_heads\": 4", "\"num_attention_heads\": 5", "heads"),
        ("\"model_type\": \"llama\"", "\"model_type\": \"qwen2\"", "attn_q.bias"),
        ("{", "", "config.json"),
    ] {
        assert!(config.contains(from), "{from}");
        std::fs::write(source.join("config.json"), config.replacen(from, to, 1)).unwrap();
        refused(expected);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
