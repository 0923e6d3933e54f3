//! Links every kernel with its imports, validates all its variants and writes the artifact that the crate
//! includes: sources, binding tables, and Rust twins of the shaders' structs.

#[path = "build/emit.rs"]
mod emit;
#[path = "build/link.rs"]
mod link;
#[path = "build/reflect.rs"]
mod reflect;

use std::path::Path;

fn main() {
    if let Err(message) = run() {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    println!("cargo:rerun-if-changed=wgsl");
    println!("cargo:rerun-if-changed=build");
    let root = Path::new("wgsl");
    let mut names: Vec<String> = std::fs::read_dir(root)
        .map_err(|e| format!("wgsl: {e}"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".wgsl").map(str::to_string))
        .collect();
    names.sort();
    let mut kernels = Vec::new();
    for name in names {
        let linked = link::link(root, &name)?;
        kernels.push(reflect::reflect(name, linked)?);
    }
    let out = std::env::var("OUT_DIR").map_err(|e| e.to_string())?;
    std::fs::write(Path::new(&out).join("artifact.rs"), emit::emit(&kernels)?).map_err(|e| e.to_string())
}
