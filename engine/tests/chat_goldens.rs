//! Rendered conversations, byte for byte against transformers' (`tests/reference/chat_goldens.py`).

use lean_engine::chat::{Chat, ChatTemplate};
use lean_engine::Error;
use serde_json::Value;
use std::path::Path;

/// What Jinja2 has and chat templates do not use; each is an error here, never different text.
const NOT_SUPPORTED: &[&str] = &["{{ '%s' % 'x' }}"];

/// A template of the goldens, or one of the published ones beside them.
fn source(goldens: &Value, folder: &Path, name: &str) -> String {
    match goldens["templates"][name].as_str() {
        Some(source) => source.to_owned(),
        None => std::fs::read_to_string(folder.join("published").join(format!("{name}.jinja"))).unwrap(),
    }
}

/// The date as Llama 3.2's template writes it.
fn today() -> String {
    let template = ChatTemplate::new("{{ strftime_now('%d %b %Y') }}", "", "").unwrap();
    template.render(&Chat::new(vec![]), &[]).unwrap().text
}

#[test]
fn every_case_renders_or_fails_as_the_reference_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/chat");
    let goldens: Value =
        serde_json::from_slice(&std::fs::read(folder.join("goldens.json")).unwrap()).unwrap();
    let now = goldens["now"].as_str().unwrap();
    let cases = goldens["cases"].as_array().unwrap();
    let mut wrong = 0;
    for case in cases {
        let source = source(&goldens, &folder, case["template"].as_str().unwrap());
        let chat: Chat = serde_json::from_value(case["chat"].clone()).unwrap();
        let (rendered, date) = loop {
            let date = today();
            let rendered =
                ChatTemplate::new(&source, "<s>", "</s>").and_then(|template| template.render(&chat, &[]));
            // Midnight may pass in between.
            if date == today() {
                break (rendered, date);
            }
        };
        let expected = case.get("text").map(|text| text.as_str().unwrap().replace(now, &date));
        let right = match (&rendered, &expected) {
            (Ok(rendered), Some(text)) => rendered.text == *text,
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
