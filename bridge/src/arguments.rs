//! The command line: short, since hosts write it and not people.

use std::ffi::OsString;
use std::process::ExitCode;

/// Printed to whoever runs the program by hand.
pub const SPAWNED_BY_HOSTS: &str = "\
lean-bridge is not run by hand: a host program spawns it and talks frames with it over stdin and stdout
(the protocol is in bridge/PROTOCOL.md). To generate values from a terminal use `lean`; to use a model from
JavaScript see hosts/node. `lean-bridge --help` says more.
";

const HELP: &str = "\
lean-bridge - the lean engine as a child process

Usage: lean-bridge [--parent-pid PID]

A host program (for example hosts/node) spawns this process and talks frames with it over stdin and stdout; the
protocol is in bridge/PROTOCOL.md. It is not meant to be run by hand: use `lean` in a terminal.

Options:
  --parent-pid PID  end as soon as this process does, even if its end of stdin stays open in another process
  -V, --version     print the versions of the bridge and of the protocol
  -h, --help        print this

Environment:
  LEAN_BRIDGE       not read here: hosts find this binary through it

Exit status:
  0  the host closed stdin, asked for a shutdown, or ended
  1  wrong arguments, or stdin and stdout cannot be used
  2  the host did not speak the protocol; the last frame on stdout says what was wrong
";

/// What the host asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// A process to end with.
    pub parent_pid: Option<u32>,
}

/// Why the process ends before it begins.
#[derive(Debug, PartialEq, Eq)]
pub enum Exit {
    /// Something to print on stdout.
    Print(String),
    /// A wrong argument.
    Wrong(String),
}

impl Exit {
    /// Prints it and gives the exit status.
    pub fn print(self) -> ExitCode {
        match self {
            Exit::Print(text) => {
                print!("{text}");
                ExitCode::SUCCESS
            }
            Exit::Wrong(what) => {
                eprintln!("lean-bridge: {what}; see lean-bridge --help");
                ExitCode::from(crate::STATUS_USAGE)
            }
        }
    }
}

impl Arguments {
    /// Parses the arguments after the program's name.
    pub fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, Exit> {
        let mut parsed = Arguments::default();
        let mut args = args.map(|a| a.to_string_lossy().into_owned());
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((n, v)) => (n.to_owned(), Some(v.to_owned())),
                None => (arg, None),
            };
            match name.as_str() {
                "-h" | "--help" => return Err(Exit::Print(HELP.into())),
                "-V" | "--version" => return Err(Exit::Print(version())),
                "--parent-pid" => {
                    let value = value.or_else(|| args.next()).unwrap_or_default();
                    let pid = value.parse().ok().filter(|p| (1..=i32::MAX as u32).contains(p));
                    parsed.parent_pid = Some(pid.ok_or_else(|| {
                        Exit::Wrong(format!("--parent-pid needs a process id, not {value:?}"))
                    })?);
                }
                _ => return Err(Exit::Wrong(format!("unknown argument {name:?}"))),
            }
        }
        Ok(parsed)
    }
}

fn version() -> String {
    let (major, min, max) = (lean_protocol::MAJOR, lean_protocol::MINOR_MIN, lean_protocol::MINOR_MAX);
    format!("lean-bridge {} (protocol {major}.{min} to {major}.{max})\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Arguments, Exit> {
        Arguments::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn arguments() {
        assert_eq!(parse(&[]), Ok(Arguments::default()));
        assert_eq!(parse(&["--parent-pid", "12"]), Ok(Arguments { parent_pid: Some(12) }));
        assert_eq!(parse(&["--parent-pid=12"]), Ok(Arguments { parent_pid: Some(12) }));
        for wrong in [&["--parent-pid"][..], &["--parent-pid=0"], &["--parent-pid=x"], &["model.gguf"]] {
            assert!(matches!(parse(wrong), Err(Exit::Wrong(_))), "{wrong:?}");
        }
        assert!(matches!(parse(&["--help"]), Err(Exit::Print(t)) if t.contains("Exit status")));
        assert!(matches!(parse(&["--version"]), Err(Exit::Print(t)) if t.contains("protocol 1.0")));
    }
}
