//! `lean pull`: model files from the Hugging Face hub.

use crate::output;
use crate::pull::{Hub, RemoteFile};
use crate::table::{self, megabytes};
use clap::Args;
use lean_engine::Result;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  lean pull bartowski/SmolLM2-360M-Instruct-GGUF                    list the files, or fetch the only GGUF
  lean pull bartowski/SmolLM2-360M-Instruct-GGUF SmolLM2-360M-Instruct-Q4_K_M.gguf
  lean chat -m \"$(lean pull OWNER/REPO FILE.gguf)\"

A download that was interrupted goes on where it stopped when the command is run again. The digest that the hub states
is checked. HTTPS_PROXY is obeyed.";

/// Exit status where the files were only listed: nothing was fetched.
const LISTED: u8 = 3;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct PullArgs {
    /// The repository
    #[arg(value_name = "OWNER/REPO")]
    pub repo: String,
    /// The file; without it the only GGUF of the repository is fetched, or the files are listed
    #[arg(value_name = "FILE")]
    pub file: Option<String>,
    /// Branch, tag or commit
    #[arg(long, default_value = "main", value_name = "NAME")]
    pub revision: String,
    /// Where the file goes; by default the folder in which the demo keeps its model
    #[arg(long, env = "LEAN_MODEL_DIR", value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The hub or a mirror of it
    #[arg(long, env = "HF_ENDPOINT", default_value = "https://huggingface.co", value_name = "URL")]
    pub endpoint: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &PullArgs) -> Result<ExitCode> {
    // Not an option: a process list would show it.
    let token = std::env::var("HF_TOKEN").ok().filter(|t| !t.is_empty());
    let hub = Hub::new(&args.endpoint, token, &args.repo, &args.revision)?;
    let file = match &args.file {
        Some(file) => file.clone(),
        None => {
            let files = hub.files()?;
            match only_gguf(&files) {
                Some(file) => file.to_string(),
                None => return list(&files, args.json),
            }
        }
    };
    let pulled = hub.pull(&file, &args.dir.clone().unwrap_or_else(default_dir))?;
    if args.json {
        output::line(serde_json::json!(pulled))?;
    } else {
        output::line(pulled.path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn only_gguf(files: &[RemoteFile]) -> Option<&str> {
    let mut ggufs = files.iter().filter(|f| f.path.ends_with(".gguf"));
    let first = ggufs.next()?;
    ggufs.next().is_none().then_some(first.path.as_str())
}

fn list(files: &[RemoteFile], json: bool) -> Result<ExitCode> {
    if json {
        output::line(serde_json::json!({"files": files}))?;
    } else {
        let header = vec!["file".to_string(), "size".to_string()];
        // A name without what would steer the terminal.
        let rows = files.iter().map(|f| vec![f.path.escape_debug().to_string(), megabytes(f.bytes)]);
        table::print(&std::iter::once(header).chain(rows).collect::<Vec<_>>())?;
        eprintln!("lean: nothing was fetched: name one of these files");
    }
    Ok(ExitCode::from(LISTED))
}

/// The repository's folder for models where lean runs from its repository, as `scripts/fetch-model.sh` has it;
/// otherwise one in the user's cache.
fn default_dir() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if let Some(root) = root.canonicalize().ok().filter(|r| r.join("scripts/fetch-model.sh").is_file()) {
        return root.join(".cache/models");
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    cache.or_else(home).unwrap_or_else(|| ".cache".into()).join("lean/models")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_gguf_is_taken_and_several_are_not() {
        let files = |paths: &[&str]| -> Vec<_> {
            paths.iter().map(|p| RemoteFile { path: p.to_string(), bytes: 1 }).collect()
        };
        assert_eq!(only_gguf(&files(&["README.md", "a/b.gguf"])), Some("a/b.gguf"));
        assert_eq!(only_gguf(&files(&["a.gguf", "b.gguf"])), None);
        assert_eq!(only_gguf(&files(&["README.md"])), None);
    }
}
