//! The `lean` command as a person uses it: what it answers, what it refuses, with which status, and what is then on the disk.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What one run of the command left.
struct Run {
    status: i32,
    out: String,
    err: String,
}

impl Run {
    fn ok(self) -> Self {
        assert_eq!(self.status, 0, "{}{}", self.out, self.err);
        self
    }

    fn json(self) -> Value {
        let run = self.ok();
        serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}", run.out))
    }
}

/// Runs the command in `folder`; a word that begins with `@` is a fixture.
fn lean(folder: &Path, args: &[&str]) -> Run {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let word = |arg: &&str| match arg.strip_prefix('@') {
        Some(name) => fixtures.join(name).display().to_string(),
        None => arg.to_string(),
    };
    let output = Command::new(env!("CARGO_BIN_EXE_lean"))
        .args(args.iter().map(word))
        .current_dir(folder)
        .env_remove("LEAN_MODEL")
        .stdin(Stdio::null())
        .output()
        .expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("all output is UTF-8");
    Run {
        status: output.status.code().expect("it ends by itself"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// An empty folder of a test's own.
fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the folder is made");
    path
}

const MODEL: &str = "@models/llama-hd64-tied.s1.q4_1.gguf";

#[test]
fn what_is_refused_says_what_and_where_and_with_which_status() {
    let here = folder("refused");
    std::fs::write(here.join("broken.gguf"), b"GGUF\x03\0\0\0\xff\xff\xff\xff").unwrap();
    std::fs::write(here.join("text.gguf"), b"hello").unwrap();
    std::fs::write(here.join("schema.json"), br#"{"type": "object", "minimum": }"#).unwrap();
    let story: Vec<String> = (0..200).map(|i| format!("word{i}")).collect();
    let story = story.join(" ");
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["generate"], 2, &["--model"]),
        (&["generate", "-m", "absent.gguf", "-p", "a"], 4, &["absent.gguf"]),
        (&["generate", "-m", ".", "-p", "a"], 4, &[]),
        (&["generate", "-m", "broken.gguf", "-p", "a"], 4, &[]),
        (&["generate", "-m", "text.gguf", "-p", "a"], 4, &[]),
        (&["generate", "-m", MODEL, "-p", "a", "--type", "{\"id\": \"nmber\"}"], 3, &["nmber", "character"]),
        (&["generate", "-m", MODEL, "-p", "a", "--type", "string < "], 3, &["character"]),
        (&["generate", "-m", MODEL, "-p", "a", "--schema", "absent.json"], 6, &["absent.json"]),
        (&["generate", "-m", MODEL, "-p", "a", "--schema", "schema.json"], 3, &["character 31"]),
        (&["generate", "-m", MODEL, "-p", &story, "--context", "16"], 3, &["16", "--context"]),
        (&["generate", "-m", MODEL, "-p", "a", "--type", "string == 300", "-n", "4"], 3, &[]),
        (&["generate", "-m", MODEL, "--checkpoint", "absent.ckpt"], 6, &["absent.ckpt"]),
        (&["generate", "-m", MODEL, "--checkpoint", "text.gguf"], 5, &[]),
        (
            &["generate", "-m", MODEL, "-p", "a", "--save-checkpoint", "no/such/folder.ckpt", "-n", "2"],
            6,
            &["no/such"],
        ),
        (&["type", "string <"], 3, &["character"]),
        (&["inspect", "text.gguf"], 4, &[]),
        (&["checkpoint", "verify", "text.gguf"], 5, &["text.gguf"]),
    ];
    let wrong = |(args, status, named): &(&[&str], i32, &[&str])| {
        let run = lean(&here, args);
        let missing: Vec<_> = named.iter().filter(|word| !run.err.contains(**word)).collect();
        let fine = run.status == *status && missing.is_empty() && !run.err.contains("panicked");
        (!fine).then(|| format!("{args:?}\n  status {} and not {missing:?} in: {}", run.status, run.err))
    };
    let wrong: Vec<String> = cases.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_value_of_a_type_is_one_line_of_json() {
    let here = folder("value");
    let ty = r#"{"id": "number", "name": "string < 8"}"#;
    let run = lean(&here, &["generate", "-m", MODEL, "-p", "One:", "--type", ty, "--json"]).json();
    assert!(run["value"]["id"].is_number() && run["value"]["name"].is_string(), "{run}");
    assert_eq!(serde_json::from_str::<Value>(run["text"].as_str().unwrap()).unwrap(), run["value"]);
}

/// a, then b with only what differs from a, then c with only what differs from b.
fn chain(here: &Path) {
    let story: Vec<String> = (0..60).map(|i| format!("word{i}")).collect();
    let first = story.join(" ");
    let save = |more: &[&str]| {
        lean(here, &[&["generate", "-m", MODEL, "-n", "40", "--context", "2000"], more].concat()).ok();
    };
    save(&["-p", &first, "--save-checkpoint", "a.ckpt"]);
    save(&["-p", &first, "--checkpoint", "a.ckpt", "--save-checkpoint", "b.ckpt", "--delta"]);
    let b = ["--checkpoint", "b.ckpt", "--parent", "a.ckpt"];
    save(&[&["-p", &first, "--save-checkpoint", "c.ckpt", "--delta"], &b[..]].concat());
    save(&[&["-p", " so", "--save-checkpoint", "whole.ckpt"], &b[..]].concat());
}

#[test]
fn a_delta_of_a_delta_is_read_with_all_that_it_builds_on() {
    let here = folder("deltas");
    chain(&here);
    let size = |name: &str| std::fs::metadata(here.join(name)).unwrap().len();
    assert!(size("c.ckpt") < size("whole.ckpt"), "a delta is smaller than the whole");
    let verify = |args: &[&str]| lean(&here, &[&["checkpoint", "verify"], args].concat());
    let exact = verify(&["c.ckpt", "-m", MODEL, "--parent", "a.ckpt", "--parent", "b.ckpt", "--json"]).json();
    assert_eq!(exact["bit_identical"], true, "{exact}");
    assert_eq!(verify(&["c.ckpt", "--json"]).json()["intact"], true);
    for (args, named) in [
        (&["c.ckpt", "-m", MODEL][..], "delta"),
        (&["c.ckpt", "--parent", "b.ckpt"], "b.ckpt is a delta"),
        (&["c.ckpt", "--parent", "a.ckpt"], "parent of the delta"),
        (&["whole.ckpt", "--parent", "a.ckpt"], "needs no parent"),
        (&["whole.ckpt", "--lora", "@adapters/llama-all-r4"], "--model"),
        (&["whole.ckpt", "-m", MODEL, "--lora", "@adapters/llama-all-r4"], "without it"),
    ] {
        let run = verify(args);
        assert!(
            matches!(run.status, 3 | 5) && run.err.contains(named),
            "{args:?}: {} {}",
            run.status,
            run.err
        );
    }
}

#[test]
fn a_checkpoint_made_with_an_adapter_is_verified_at_its_own_scale() {
    let here = folder("adapter");
    let args = ["generate", "-m", MODEL, "-p", "Once", "-n", "4", "--save-checkpoint", "a.ckpt"];
    lean(&here, &[&args[..], &["--lora", "@adapters/llama-all-r4.gguf:0.5"]].concat()).ok();
    let verify =
        |lora: &str| lean(&here, &["checkpoint", "verify", "a.ckpt", "-m", MODEL, "--json", "--lora", lora]);
    for lora in ["@adapters/llama-all-r4.gguf", "@adapters/llama-all-r4.gguf:0.5"] {
        assert_eq!(verify(lora).json()["bit_identical"], true);
    }
    let other = verify("@adapters/llama-all-r4.gguf:0.75");
    assert!(other.status == 3 && other.err.contains("scale 0.5"), "{}", other.err);
}

#[test]
fn the_type_of_keys_and_values_is_part_of_what_a_checkpoint_is() {
    let here = folder("kv");
    for kv in ["f32", "f24", "f16", "q8_0"] {
        let save =
            ["generate", "-m", MODEL, "-p", "Once upon", "-n", "4", "--save-checkpoint", kv, "--kv", kv];
        lean(&here, &save).ok();
        let verify = lean(&here, &["checkpoint", "verify", kv, "-m", MODEL, "--kv", kv, "--json"]).json();
        assert_eq!(verify["bit_identical"], true, "{verify}");
        let go_on = |with: &str| {
            lean(&here, &["generate", "-m", MODEL, "--checkpoint", kv, "-p", " a", "-n", "2", "--kv", with])
        };
        go_on(kv).ok();
        let other = go_on(if kv == "f16" { "f32" } else { "f16" });
        assert_eq!(other.status, 5, "{kv}: {}", other.err);
        assert!(other.err.contains("--restore"), "it says what to do: {}", other.err);
    }
}

#[test]
fn a_damaged_file_is_refused_and_what_was_there_stays() {
    let here = folder("damage");
    let save = ["generate", "-m", MODEL, "-p", "Once upon", "-n", "4", "--save-checkpoint", "a.ckpt"];
    lean(&here, &save).ok();
    let whole = std::fs::read(here.join("a.ckpt")).unwrap();
    for (name, bytes) in [
        ("cut", whole[..whole.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("flipped", {
            let mut bytes = whole.clone();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            bytes
        }),
    ] {
        std::fs::write(here.join(name), &bytes).unwrap();
        let run = lean(&here, &["checkpoint", "verify", name]);
        assert_eq!(run.status, 5, "{name}: {}", run.err);
        assert!(run.err.contains(name), "{}", run.err);
        // A run that fails to restore it must not replace the file that it would have saved.
        let over = ["generate", "-m", MODEL, "--checkpoint", name, "--save-checkpoint", "a.ckpt", "-p", "x"];
        assert_eq!(lean(&here, &over).status, 5);
        assert_eq!(std::fs::read(here.join("a.ckpt")).unwrap(), whole, "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(&here).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "nothing else is left behind: {left:?}");
}
