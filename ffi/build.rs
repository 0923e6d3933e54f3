//! Keeps symbols of dependencies out of the shared library: `llguidance` has a C interface of its own, whose
//! functions rustc would export beside ours. Which symbols are left is tested (`tests/header.rs`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match os.as_str() {
        // Our own functions come from objects, those of dependencies from archives.
        "linux" | "android" | "freebsd" => println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL"),
        "macos" | "ios" => println!("cargo:rustc-cdylib-link-arg=-Wl,-unexported_symbol,_llg_*"),
        _ => {}
    }
}
