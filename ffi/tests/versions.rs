//! `docs/versions.md` says what the code says, and all packages have one version.

use std::path::PathBuf;

fn text(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// What stands between two texts, the first time.
fn between(file: &str, before: &str, after: &str) -> String {
    let all = text(file);
    let (_, rest) = all.split_once(before).unwrap_or_else(|| panic!("{file} has no {before:?}"));
    rest.split(after).next().unwrap().trim().to_string()
}

/// The column `now` of the table.
fn said(what: &str) -> String {
    between("docs/versions.md", &format!("\n| {what} | "), " |")
}

#[test]
fn the_numbers_in_the_docs_are_those_in_the_code() {
    let abi = between("ffi/src/status.rs", "pub const LEAN_ABI_VERSION: u32 = ", ";");
    let name = between("ffi/build.rs", "-soname,", "\"");
    assert_eq!(said("C ABI"), format!("{abi}, in `{name}`"));
    assert_eq!(between("include/lean.h", "#define LEAN_ABI_VERSION", "\n"), abi);
    assert_eq!(between("scripts/install.sh", "soname=", "\n"), name);

    let protocol = "bridge/protocol/src/lib.rs";
    let number = |constant: &str| between(protocol, &format!("pub const {constant}: u32 = "), ";");
    let (major, min, max) = (number("MAJOR"), number("MINOR_MIN"), number("MINOR_MAX"));
    assert_eq!(said("wire protocol"), format!("{major}.{min} to {major}.{max}"));
    assert!(text("bridge/PROTOCOL.md")
        .starts_with(&format!("# The lean bridge protocol, version {major}.{max}\n")));

    let newest = between("engine/src/context/file/table.rs", "const VERSION: u32 = ", ";");
    assert_eq!(said("checkpoint format"), format!("1 to {newest}"));
    assert!(text("docs/checkpoint.md")
        .starts_with(&format!("# The checkpoint format, versions 1 and {newest}\n")));
}

#[test]
fn all_packages_have_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(said("library and packages"), version);
    for (file, before, after) in [
        ("Cargo.toml", "[workspace.package]\nversion = \"", "\""),
        ("hosts/node/package.json", "\"version\": \"", "\""),
        ("hosts/web/package.json", "\"version\": \"", "\""),
        ("hosts/python/pyproject.toml", "\nversion = \"", "\""),
        ("hosts/kotlin/pom.xml", "<version>", "<"),
    ] {
        assert_eq!(between(file, before, after), version, "{file}");
    }
}
