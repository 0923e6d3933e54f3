//! `lean generate`: a value of a type, or text, from a prompt or a checkpoint.

use crate::args::{read_limited, read_text, GenerateArgs, MAX_TEXT};
use crate::{interrupt, lineage, loading, output, tools};
use lean_engine::{
    files, Block, Checkpoint, Error, Event, Finish, Generation, Model, Output, Request, Restored, Result,
    SaveOptions, Session, SessionOptions, ToolChoice, Tools, Type,
};
use serde_json::Value;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

pub fn run(args: &GenerateArgs) -> Result<ExitCode> {
    let (tools, left_out) = args.tools.as_deref().map(tools::read).transpose()?.unzip();
    let ty = requested_type(args, tools.as_deref(), left_out.unwrap_or_default())?;
    if let Some(path) = &args.save_checkpoint {
        // Now, and not after a generation that would be lost.
        files::check_target(path)?;
        if let (true, Some(checkpoint)) = (args.delta, &args.checkpoint) {
            lineage::check_delta_target(path, checkpoint, &args.parents)?;
        }
    }
    let checkpoint = stored(args)?;
    let prompt = prompt(args, checkpoint.is_some())?;
    let model = loading::load(&args.model.model, &args.model.device)?;
    let mut session = open(&model, args, checkpoint.as_ref())?;
    for warning in ty.warnings() {
        eprintln!("lean: note: {warning}");
    }

    let cancel = interrupt::token();
    let blocks = blocks(args, prompt, tools)?;
    let resumes = blocks.is_empty() && session.can_resume();
    if !blocks.is_empty() {
        session.append_with(&blocks, &cancel, |_, _| {})?;
    }
    // Plain text is shown as it comes.
    let stream = !args.json && ty.is_text() && !resumes;
    let save = args.save_checkpoint.as_deref().map(|path| (path, save_options(args, checkpoint.as_ref())));
    let output = if resumes {
        drive_saving(session.resume(cancel)?, false, save)?
    } else {
        let mut request = Request::new(ty);
        request.options = args.sampler.options(session.capacity().saturating_sub(session.tokens().len()));
        request.options.confidence = args.confidence;
        request.cancel = cancel;
        drive_saving(session.generate(&request)?, stream, save)?
    };
    print(args, &output, stream)?;
    if let Some((path, options)) = save {
        session.checkpoint()?.save_with(path, &options, &mut |_, _| {})?;
    }
    Ok(ExitCode::SUCCESS)
}

fn save_options<'a>(args: &GenerateArgs, restored: Option<&'a Checkpoint>) -> SaveOptions<'a> {
    SaveOptions { compress: args.compress, parent: restored.filter(|_| args.delta) }
}

fn stored(args: &GenerateArgs) -> Result<Option<Checkpoint>> {
    let Some(path) = &args.checkpoint else { return Ok(None) };
    lineage::load(path, &args.parents).map(Some)
}

/// `left_out` are tools that could not be parsed.
fn requested_type(
    args: &GenerateArgs,
    tools: Option<&[Value]>,
    left_out: Vec<(String, Error)>,
) -> Result<Type> {
    match (&args.ty, &args.schema) {
        (Some(expr), _) => Type::expr(expr),
        (None, Some(path)) => Type::schema(&read_text(path)?),
        (None, None) => match tools {
            Some(tools) => {
                let choice = args.tool.clone().map_or_else(Default::default, choice);
                let wanted = |name: &str| matches!(&choice, ToolChoice::Tool(t) if t == name);
                for (name, error) in left_out {
                    if tools.is_empty() || wanted(&name) {
                        return Err(error);
                    }
                    eprintln!("lean: note: left out: {error}");
                }
                Type::tools(Tools { choice, ..Tools::new(tools.to_vec()) })
            }
            None => Type::from_source(lean_engine::TypeSource::Text { max_chars: None }),
        },
    }
}

fn choice(name: String) -> ToolChoice {
    match name.as_str() {
        "required" => ToolChoice::Required,
        _ => ToolChoice::Tool(name),
    }
}

/// The prompt: the argument, else standard input where something is piped in.
fn prompt(args: &GenerateArgs, has_checkpoint: bool) -> Result<Option<String>> {
    if args.prompt.is_some() {
        return Ok(args.prompt.clone());
    }
    let stdin = std::io::stdin();
    if stdin.is_terminal() || has_checkpoint {
        // A checkpoint is a context by itself; waiting for a pipe would hang a script that has none.
        return match has_checkpoint {
            true => Ok(None),
            false => Err(Error::invalid("--prompt", "no prompt: give --prompt TEXT, or pipe the text in")),
        };
    }
    let mut text = read_limited(stdin, "standard input", MAX_TEXT)?;
    // The line end is the pipe's, not the prompt's.
    text.truncate(text.trim_end_matches(['\n', '\r']).len());
    Ok(Some(text))
}

fn open(model: &Model, args: &GenerateArgs, checkpoint: Option<&Checkpoint>) -> Result<Session> {
    let options = SessionOptions { context: args.context };
    let adapters = args.lora.load(model)?;
    let Some(checkpoint) = checkpoint else {
        let mut session = model.session(options)?;
        session.set_adapters(&adapters)?;
        return Ok(session);
    };
    let mut session = model.restore_with(checkpoint, args.restore.into(), options)?;
    if let (true, Some(how @ (Restored::Converted | Restored::Reprefilled))) =
        (args.delta, session.restored())
    {
        let what = if how == Restored::Converted { "converted" } else { "computed again" };
        let reason =
            format!("the checkpoint's state is {what} here, so that nothing of it could be left out; leave out --delta");
        return Err(Error::invalid("--delta", reason));
    }
    // A checkpoint comes with its adapters, which only have to be loaded; others run its tokens again.
    session.set_adapters(&adapters)?;
    Ok(session)
}

fn blocks(args: &GenerateArgs, prompt: Option<String>, tools: Option<Vec<Value>>) -> Result<Vec<Block>> {
    let Some(prompt) = prompt else { return Ok(Vec::new()) };
    if !args.chat && args.system.is_none() && tools.is_none() {
        return Ok(vec![Block::Text(prompt)]);
    }
    let mut messages = Vec::new();
    if let Some(system) = &args.system {
        messages.push(("system", system.as_str()));
    }
    messages.push(("user", prompt.as_str()));
    let mut block = Block::chat(&messages);
    if let Block::Chat(chat) = &mut block {
        chat.tools = tools;
    }
    Ok(vec![block])
}

/// As [`drive`]; where a checkpoint was asked for, Ctrl-C saves the value so far, to be continued.
fn drive_saving(
    mut generation: Generation<&mut Session>,
    stream: bool,
    save: Option<(&Path, SaveOptions<'_>)>,
) -> Result<Output> {
    let Some((path, options)) = save else { return drive(generation, stream) };
    loop {
        // Before the step, because a cancelled one leaves nothing to go on from. It costs microseconds.
        let here = generation.checkpoint()?;
        match generation.next() {
            Ok(Some(event)) => show(event, stream)?,
            Ok(None) => return generation.finish(),
            Err(Error::Cancelled) => {
                here.save_with(path, &options, &mut |_, _| {})?;
                let file = path.display();
                eprintln!("lean: stopped inside the value; --checkpoint {file} without a prompt goes on");
                return Err(Error::Cancelled);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Runs a generation to its end; text goes to standard output as it becomes final.
pub fn drive(mut generation: Generation<&mut Session>, stream: bool) -> Result<Output> {
    while let Some(event) = generation.next()? {
        show(event, stream)?;
    }
    generation.finish()
}

fn show(event: Event, stream: bool) -> Result<()> {
    match (stream, event) {
        (true, Event::Token { text, .. } | Event::Text { text }) => output::text(text),
        _ => Ok(()),
    }
}

fn print(args: &GenerateArgs, output: &Output, streamed: bool) -> Result<()> {
    if args.json {
        let mut line = serde_json::json!({
            "value": output.value,
            "text": output.text,
            "finish": output.finish,
            "usage": output.usage,
        });
        if let Some(confidence) = &output.confidence {
            line["confidence"] = serde_json::json!(confidence);
        }
        output::line(line)?;
    } else if streamed {
        output::line("")?;
    } else {
        output::line(&output.text)?;
    }
    if output.finish == Finish::Length && std::io::stderr().is_terminal() {
        eprintln!("lean: note: stopped after {} tokens; see --max-tokens", output.tokens.len());
    }
    Ok(())
}
