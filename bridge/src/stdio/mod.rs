//! Stdin and stdout for frames alone: a stray print anywhere in the process must not corrupt the stream.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub use unix::{ignore_interrupts, take};

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
pub use other::{ignore_interrupts, take};

/// Whether a person started the program in a terminal.
pub fn is_terminal() -> bool {
    use std::io::IsTerminal;
    std::io::stdin().is_terminal() || std::io::stdout().is_terminal()
}
