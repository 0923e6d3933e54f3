//! The lean command: typed values, chat, inspection, verification and benchmarks from a terminal.

mod args;
mod commands;
mod interrupt;
mod loading;
mod table;

use args::{Cli, Command};
use clap::Parser;
use lean_engine::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
        Command::Chat(args) => commands::chat::run(&args),
        Command::Type(args) => commands::ty::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("lean: {error}");
            if let Some(hint) = hint(&error) {
                eprintln!("  {hint}");
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

/// The exit status of an error: the group of its stable code. `--help` lists them.
fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Cancelled => 130,
        other => match other.code() / 100 {
            1 => 3,
            2 => 4,
            3 => 5,
            4 => 6,
            5 => 7,
            _ => 70,
        },
    }
}

/// What to do about an error, where the message alone does not say.
fn hint(error: &Error) -> Option<&'static str> {
    match error {
        Error::ContextOverflow { .. } => Some("shorten the prompt, lower --max-tokens, or raise --context"),
        Error::Truncated { .. } => Some("raise --max-tokens, or bound the type (for example \"string < 64\")"),
        Error::Incompatible { .. } => Some("the checkpoint was made by another model or backend; see --restore"),
        Error::Type { .. } => Some("try the type by itself: lean type EXPR; docs/types.md has the notation"),
        _ => None,
    }
}
