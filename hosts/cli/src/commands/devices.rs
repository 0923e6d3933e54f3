//! `lean devices`: the GPU adapters of this machine, with what matters to the kernels.

use crate::{output, table};
use clap::Args;
use lean_engine::Result;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  lean devices
  lean generate -m model.gguf --adapter 0 'Once upon a time'

Software adapters are used only where --adapter names them.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct DevicesArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn run(args: &DevicesArgs) -> Result<ExitCode> {
    let devices = lean_engine::devices()?;
    if args.json {
        output::line(serde_json::json!({ "devices": devices }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if devices.is_empty() {
        output::line("no GPU adapter; the CPU backend runs everywhere")?;
        return Ok(ExitCode::SUCCESS);
    }
    let header = ["#", "name", "interface", "kind", "driver", "binding", "workgroup", "subgroup", "features"];
    let mut rows = vec![header.map(String::from).to_vec()];
    for d in devices {
        let subgroup = match d.subgroup {
            [0, 0] => "none".to_string(),
            [least, most] if least == most => most.to_string(),
            [least, most] => format!("{least}-{most}"),
        };
        rows.push(vec![
            d.index.to_string(),
            d.name,
            d.interface,
            d.kind.to_string(),
            d.driver,
            table::megabytes(d.max_binding),
            format!("{} KiB", d.workgroup_memory >> 10),
            subgroup,
            d.features.join(" "),
        ]);
    }
    table::print(&rows)?;
    Ok(ExitCode::SUCCESS)
}
