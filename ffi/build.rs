//! The shared library's own name, and what it exports.
//!
//! `llguidance` has a C interface of its own, whose functions rustc would export beside ours; which symbols are left is
//! tested (`tests/header.rs`). On Linux and the like the library is `liblean.so.0`: what is linked with it looks for that
//! name, which changes when the C ABI breaks (`docs/versions.md`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match os.as_str() {
        "linux" | "freebsd" => {
            // Our own functions come from objects, those of dependencies from archives.
            println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
            println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblean.so.0");
            name_beside_the_library();
        }
        // Names there have no versions.
        "android" => println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL"),
        "macos" | "ios" => println!("cargo:rustc-cdylib-link-arg=-Wl,-unexported_symbol,_llg_*"),
        _ => {}
    }
}

/// A program that was linked with the library in the build folder finds it there by its name.
#[cfg(unix)]
fn name_beside_the_library() {
    let Some(out) = std::env::var_os("OUT_DIR").map(std::path::PathBuf::from) else { return };
    let Some(folder) = out.ancestors().nth(3) else { return };
    let name = folder.join("liblean.so.0");
    match std::os::unix::fs::symlink("liblean.so", &name) {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
            println!("cargo:warning={}: {e}", name.display())
        }
        _ => {}
    }
}

#[cfg(not(unix))]
fn name_beside_the_library() {}
