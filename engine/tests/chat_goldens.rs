//! Rendered conversations, byte for byte against transformers' (`tests/reference/chat_goldens.py`).

use lean_engine::chat::{Chat, ChatTemplate};
use lean_engine::Error;
use serde_json::Value;
use std::path::Path;

/// What Jinja2 has and chat templates do not use; each is an error here, never different text.
const NOT_SUPPORTED: &[&str] = &["{{ '%s' % 'x' }}"];

#[test]
fn every_case_renders_or_fails_as_the_reference_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/chat/goldens.json");
    let goldens: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = goldens["cases"].as_array().unwrap();
    let mut wrong = 0;
    for case in cases {
        let source = goldens["templates"][case["template"].as_str().unwrap()].as_str().unwrap();
        let chat: Chat = serde_json::from_value(case["chat"].clone()).unwrap();
        let rendered =
            ChatTemplate::new(source, "<s>", "</s>").and_then(|template| template.render(&chat, &[]));
        let expected = case.get("text").map(|text| text.as_str().unwrap());
        let right = match (&rendered, expected) {
            (Ok(rendered), Some(text)) => rendered.text == text,
            (Err(Error::Template { reason }), None) => {
                case["error"].as_str().is_none_or(|error| error == reason)
            }
            (Err(Error::Template { .. }), Some(_)) => NOT_SUPPORTED.contains(&case["name"].as_str().unwrap()),
            _ => false,
        };
        if !right {
            wrong += 1;
            println!(
                "{}\n  rendered {:?}\n  expected {:?}",
                case["name"],
                rendered.map(|r| r.text),
                case.get("text").or(case.get("error"))
            );
        }
    }
    assert_eq!(wrong, 0, "{wrong} of {} cases differ", cases.len());
}
