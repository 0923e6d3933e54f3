//! `include/lean.h` and `exports.txt` say what this crate is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn crate_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The modules in the order of `lib.rs`, which is the order of the header.
fn sources() -> Vec<PathBuf> {
    let lib = std::fs::read_to_string(crate_dir().join("src/lib.rs")).unwrap();
    let names = lib.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    names.map(|name| crate_dir().join("src").join(format!("{name}.rs"))).collect()
}

fn generated() -> String {
    let config = cbindgen::Config::from_file(crate_dir().join("cbindgen.toml")).expect("cbindgen.toml");
    let builder =
        sources().into_iter().fold(cbindgen::Builder::new().with_config(config), |b, file| b.with_src(file));
    let mut header = Vec::new();
    builder.generate().expect("the sources parse").write(&mut header);
    String::from_utf8(header).unwrap()
}

/// Compares with a checked-in file, or writes it when asked to.
fn check(file: &Path, fresh: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file, fresh).unwrap();
    }
    let kept = std::fs::read_to_string(file).unwrap_or_default();
    let stale = kept.lines().zip(fresh.lines()).enumerate().find(|(_, (a, b))| a != b);
    assert!(
        kept == fresh,
        "{} is stale (first difference: {stale:?}); run UPDATE_GOLDEN=1 cargo test -p lean-ffi --test header",
        file.display()
    );
}

/// Functions of the source, in the alphabet's order.
fn functions() -> BTreeSet<String> {
    let text: String = sources().iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let exported = text.split("#[no_mangle]").skip(1);
    exported.map(|rest| rest.split("fn ").nth(1).unwrap().split('(').next().unwrap().to_string()).collect()
}

#[test]
fn the_header_is_fresh() {
    check(&crate_dir().join("../include/lean.h"), &generated());
}

#[test]
fn the_list_of_exports_is_fresh_and_each_is_declared() {
    let all = functions();
    check(&crate_dir().join("exports.txt"), &all.iter().map(|name| format!("{name}\n")).collect::<String>());
    let header = generated();
    for name in all {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
}

/// Symbols of a library, by the platform's own tool.
#[cfg(unix)]
fn symbols(library: &Path) -> BTreeSet<String> {
    let dynamic: &[&str] = if cfg!(target_os = "macos") { &["-gU"] } else { &["-D", "--defined-only"] };
    let out =
        std::process::Command::new("nm").args(dynamic).arg(library).output().expect("nm (binutils) runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split_whitespace().last());
    names.map(|name| name.trim_start_matches('_').split('@').next().unwrap_or(name).to_string()).collect()
}

#[cfg(unix)]
#[test]
fn the_library_exports_exactly_the_list() {
    // Cargo builds the shared library beside the tests.
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let name = format!("{}lean{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let listed = std::fs::read_to_string(crate_dir().join("exports.txt")).unwrap();
    let listed: BTreeSet<String> = listed.lines().map(str::to_string).collect();
    let exported = symbols(&deps.join(name));
    let extra: Vec<_> = exported.difference(&listed).collect();
    let missing: Vec<_> = listed.difference(&exported).collect();
    assert!(
        extra.is_empty() && missing.is_empty(),
        "exported but not listed: {extra:?}; the reverse: {missing:?}"
    );
}

/// What is linked with it asks for that name: it changes only when the ABI breaks.
#[cfg(target_os = "linux")]
#[test]
fn the_library_has_a_name_with_its_abi() {
    let library = std::env::current_exe().unwrap().with_file_name("liblean.so");
    let out = std::process::Command::new("readelf")
        .arg("-d")
        .arg(&library)
        .output()
        .expect("readelf (binutils) runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let name = text.lines().find(|line| line.contains("(SONAME)"));
    assert!(name.is_some_and(|line| line.ends_with("[liblean.so.0]")), "{name:?}");
}
