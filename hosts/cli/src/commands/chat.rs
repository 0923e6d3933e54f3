//! `lean chat`: a conversation in the terminal.

use super::generate::drive;
use crate::args::{ChatArgs, DEFAULT_MAX_TOKENS};
use crate::{interrupt, loading, output};
use lean_engine::chat::chat_trim_oldest_exchange;
use lean_engine::{Block, Chat, Error, Request, Result, Session, SessionOptions, Type, TypeSource};
use serde_json::json;
use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

pub fn run(args: &ChatArgs) -> Result<ExitCode> {
    let model = loading::load(&args.model.model, &args.model.device)?;
    let mut session = model.session(SessionOptions { context: args.context })?;
    session.set_adapters(&args.lora.load(&model)?)?;
    let terminal = std::io::stdin().is_terminal();
    if terminal {
        eprintln!("Type a message; Ctrl-C stops a reply, Ctrl-D ends.");
    }
    let mut chat = Chat {
        messages: args.system.iter().map(|s| json!({"role": "system", "content": s})).collect(),
        tools: None,
        add_generation_prompt: true,
        trusted: false,
        variables: Default::default(),
    };
    let io = |e| Error::io("standard input", e);
    let mut lines = std::io::stdin().lock().lines();
    loop {
        if terminal {
            eprint!("> ");
            let _ = std::io::stderr().flush();
        }
        let Some(line) = lines.next() else { break };
        let line = line.map_err(io)?;
        if line.trim().is_empty() {
            continue;
        }
        chat.messages.push(json!({"role": "user", "content": line}));
        let reply = reply(&mut session, &mut chat, args);
        interrupt::release();
        match reply {
            Ok(text) => chat.messages.push(json!({"role": "assistant", "content": text})),
            Err(Error::Cancelled) => {
                eprintln!("\n(stopped; the message was not kept)");
                chat.messages.pop();
            }
            // A message that is too long is no reason to lose the conversation.
            Err(error @ Error::ContextOverflow { .. }) => {
                eprintln!("({error}; the message was not kept)");
                chat.messages.pop();
            }
            Err(error) => return Err(error),
        }
        output::line("")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs one turn. The whole conversation is the context; what it shares with the last turn is not run again.
fn reply(session: &mut Session, chat: &mut Chat, args: &ChatArgs) -> Result<String> {
    let cancel = interrupt::token();
    loop {
        let tokens = session.model().count_tokens(&[Block::Chat(chat.clone())])?;
        // Room for an answer, not only for the question.
        if tokens + args.sampler.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS).min(session.capacity() / 4)
            <= session.capacity()
        {
            break;
        }
        match chat_trim_oldest_exchange(chat) {
            Some(shorter) => {
                eprintln!("(the oldest exchange was dropped: the context is full)");
                *chat = shorter;
            }
            None => return Err(Error::ContextOverflow { needed: tokens, available: session.capacity() }),
        }
    }
    session.set_context_with(&[Block::Chat(chat.clone())], &cancel, |_, _| {})?;
    let mut request = Request::new(Type::from_source(TypeSource::Text { max_chars: None })?);
    let room = session.capacity() - session.tokens().len();
    request.options = args.sampler.options(room);
    request.options.max_tokens = request.options.max_tokens.map(|n| n.min(room));
    request.cancel = cancel;
    Ok(drive(session.generate(&request)?, true)?.text)
}
