//! Making a conversation shorter.

use super::Chat;

/// The conversation without its oldest exchange: the first user message and everything up to the next one.
///
/// System (and developer) messages stay, and so does everything from the last user message on; `None` if
/// nothing else is left to drop. What stands before the first user message, such as a greeting, goes first.
pub fn chat_trim_oldest_exchange(chat: &Chat) -> Option<Chat> {
    let role = |i: usize| chat.messages[i].get("role").and_then(|r| r.as_str()).unwrap_or_default();
    let stays = |i: usize| matches!(role(i), "system" | "developer");
    let count = chat.messages.len();
    let start = (0..count).find(|&i| !stays(i))?;
    let end = (start + 1..count).find(|&i| role(i) == "user")?;
    let mut shorter = chat.clone();
    let mut i = 0;
    shorter.messages.retain(|_| {
        let dropped = (start..end).contains(&i) && !stays(i);
        i += 1;
        !dropped
    });
    Some(shorter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Roles by their first letter; the content is the position.
    fn chat(roles: &str) -> Chat {
        let name = |c| match c {
            's' => "system",
            'd' => "developer",
            'u' => "user",
            'a' => "assistant",
            _ => "tool",
        };
        Chat::new(
            roles
                .chars()
                .enumerate()
                .map(|(i, c)| json!({"role": name(c), "content": i.to_string()}))
                .collect(),
        )
    }

    #[test]
    fn drops_exchanges_until_only_the_last_one_is_left() {
        for (roles, kept) in [
            ("suauau", Some("0345")),
            ("uau", Some("2")),
            ("suatatuau", Some("0678")),
            ("sau", Some("02")),
            ("sdusau", Some("0135")),
            ("su", None),
            ("sua", None),
            ("s", None),
            ("", None),
            ("uu", Some("1")),
        ] {
            let shorter = chat_trim_oldest_exchange(&chat(roles));
            let content = shorter
                .map(|c| c.messages.iter().map(|m| m["content"].as_str().unwrap()).collect::<String>());
            assert_eq!(content.as_deref(), kept, "{roles}");
        }
    }
}
