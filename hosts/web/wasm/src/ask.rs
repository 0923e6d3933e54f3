//! Questions beside the protocol, which need no turn: a name and JSON in, JSON out.

use crate::host;
use lean_engine::chat::chat_trim_oldest_exchange;
use lean_engine::tokenizer::Specials;
use lean_engine::{Block, Chat, Error, Result, Type, TypeSource};
use lean_protocol::Class;
use serde::de::DeserializeOwned;
use serde_json::{json, Value};

/// Answers a question: `{"ok": ANSWER}`, or `{"error": {code, class, name, message, details}}`.
pub(crate) fn ask(name: &str, question: &str) -> String {
    let parsed = lean_protocol::json::parse(question.as_bytes());
    let parsed = parsed.map_err(|e| Error::invalid("question", e));
    match parsed.and_then(|question| answer(name, &question)) {
        Ok(answer) => json!({ "ok": answer }).to_string(),
        Err(error) => json!({ "error": described(&error) }).to_string(),
    }
}

fn answer(name: &str, question: &Value) -> Result<Value> {
    match name {
        "chat_render" => {
            let model = host::model(&part::<String>(question, "source")?)?;
            Ok(json!(model.render_chat(&part::<Chat>(question, "chat")?)?))
        }
        "chat_trim_oldest_exchange" => {
            let chat = chat_trim_oldest_exchange(&part::<Chat>(question, "chat")?);
            Ok(chat.map_or(Value::Null, |chat| json!({ "messages": chat.messages })))
        }
        "tokenize" => {
            let model = host::model(&part::<String>(question, "source")?)?;
            let ids = model.tokenize(&part::<Vec<Block>>(question, "blocks")?)?;
            let texts: Vec<String> = ids.iter().map(|id| model.decode(&[*id], true)).collect();
            Ok(json!({ "ids": ids, "texts": texts }))
        }
        "encode" => {
            let model = host::model(&part::<String>(question, "source")?)?;
            Ok(json!(model.encode(&part::<String>(question, "text")?, Specials::Text)?))
        }
        "check_type" => {
            Type::from_source(part::<TypeSource>(question, "type")?)?;
            Ok(Value::Null)
        }
        "forget" => {
            host::forget(&part::<String>(question, "source")?);
            Ok(Value::Null)
        }
        other => Err(Error::invalid("question", format!("{other:?} is unknown"))),
    }
}

fn part<T: DeserializeOwned>(question: &Value, name: &str) -> Result<T> {
    let value = question.get(name).cloned().unwrap_or(Value::Null);
    T::deserialize(value).map_err(|e| Error::invalid(name, e))
}

/// As ERROR frames say it.
fn described(error: &Error) -> Value {
    let details = match error {
        Error::Type { at, keyword, reason } => json!({ "at": at, "keyword": keyword, "reason": reason }),
        _ => Value::Null,
    };
    json!({
        "code": error.code(),
        "class": Class::of_code(error.code()) as u32,
        "name": error.name(),
        "message": error.to_string(),
        "details": details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(name: &str, question: Value) -> Value {
        serde_json::from_str(&ask(name, &question.to_string())).unwrap()
    }

    #[test]
    fn answers_and_errors_have_their_forms() {
        let chat = json!({ "messages": [
            { "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }, { "role": "user", "content": "c" }
        ] });
        let shorter = asked("chat_trim_oldest_exchange", json!({ "chat": chat }));
        assert_eq!(shorter, json!({ "ok": { "messages": [{ "role": "user", "content": "c" }] } }));
        assert_eq!(asked("check_type", json!({ "type": { "expr": "string < 9" } })), json!({ "ok": null }));
        let error = &asked("check_type", json!({ "type": { "expr": { "a": "strin" } } }))["error"];
        assert_eq!((&error["code"], &error["name"]), (&json!(110), &json!("type")), "{error}");
        assert!(error["details"]["at"].is_string(), "{error}");
        assert_eq!(asked("chat_render", json!({ "source": "x", "chat": chat }))["error"]["code"], 100);
        assert_eq!(asked("nonsense", json!({}))["error"]["code"], 100);
    }
}
