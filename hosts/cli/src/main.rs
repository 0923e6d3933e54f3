//! The lean command: typed values, chat, inspection, verification, benchmarks and the making of model files.

mod args;
mod commands;
mod convert;
mod encode;
mod interrupt;
mod keys;
mod lineage;
mod loading;
mod lora;
mod mix;
mod output;
mod paths;
mod progress;
#[cfg(feature = "pull")]
mod pull;
mod synth;
mod table;
mod tools;

use args::{Cli, Command};
use clap::Parser;
use lean_engine::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    end_with_the_reader();
    #[cfg(feature = "gpu")]
    lean_engine::without_mesas_device_selection();
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Generate(args) => commands::generate::run(&args),
        Command::Chat(args) => commands::chat::run(&args),
        Command::Type(args) => commands::ty::run(&args),
        Command::Checkpoint(args) => commands::checkpoint::run(&args),
        Command::Inspect(args) => commands::inspect::run(&args),
        Command::Verify(args) => commands::verify::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        #[cfg(feature = "gpu")]
        Command::Devices(args) => commands::devices::run(&args),
        Command::Convert(args) => commands::convert::run(&args),
        #[cfg(feature = "pull")]
        Command::Pull(args) => commands::pull::run(&args),
        Command::Quantize(args) => commands::quantize::run(&args),
        Command::Synth(args) => commands::synth::run(&args),
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

/// `lean inspect FILE | head` ends as any other program does, instead of with a panic of `println!`.
fn end_with_the_reader() {
    #[cfg(unix)]
    // SAFETY: SIG_DFL installs no handler, so no code of ours runs in a signal context; no other thread is there.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
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
        Error::BudgetTooSmall { .. } => Some("raise --max-tokens, or make the type smaller"),
        Error::Incompatible { what, .. } if what.contains("fingerprint") => {
            Some("load the model that the checkpoint was made with")
        }
        Error::Incompatible { what, .. } if what.contains("class") || what.contains("layout") => {
            Some("it was made by another backend: --restore convert takes its state over, reprefill computes it again")
        }
        Error::Type { .. } => Some("docs/types.md has the notation, and what of JSON Schema is enforced"),
        _ => None,
    }
}
