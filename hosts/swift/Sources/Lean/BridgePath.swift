import Foundation

#if canImport(Darwin)
    let libraryName = "liblean.dylib"
#else
    let libraryName = "liblean.so"
#endif

/// The binary that `Engine.spawn` starts: the one given, else the one that the environment variable LEAN_BRIDGE names, else the one
/// beside this program's executable, else `lean-bridge` on the PATH. The error says what to install.
public func findBridge(_ given: String? = nil) throws -> String {
    if let named = try named(given, "the argument bridge", "LEAN_BRIDGE") { return named }
    let name = "lean-bridge"
    let path = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").map { "\($0)/\(name)" }
    for candidate in [beside(name)] + path where isFile(candidate) { return candidate }
    throw LeanError.notFound(
        "no \(name) was found: not as \(beside(name)), and not on the PATH. Build it with `cargo build --release -p lean-bridge`, and put it "
            + "there or set LEAN_BRIDGE to where it is.")
}

/// The library that the transport `port` loads: the one given, else the one that LEAN_LIBRARY names, else the one beside this
/// program's executable; nil says that it is linked into this program, or that the system's loader has to know it.
public func findLibrary(_ given: String? = nil) throws -> String? {
    if let named = try named(given, "the argument library", "LEAN_LIBRARY") { return named }
    return isFile(beside(libraryName)) ? beside(libraryName) : nil
}

private func named(_ given: String?, _ argument: String, _ variable: String) throws -> String? {
    for (path, source) in [(given, argument), (ProcessInfo.processInfo.environment[variable], variable)] {
        guard let path, !path.isEmpty else { continue }
        if isFile(path) { return absolute(path) }
        throw LeanError.notFound("\(source) names \(path), where there is no file")
    }
    return nil
}

private func beside(_ name: String) -> String {
    let executable = Bundle.main.executablePath ?? CommandLine.arguments[0]
    return URL(fileURLWithPath: executable).deletingLastPathComponent().appendingPathComponent(name).path
}

private func isFile(_ path: String) -> Bool {
    var isFolder: ObjCBool = false
    return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && !isFolder.boolValue
}

/// A path as the bridge finds it too, whatever its working directory.
func absolute(_ path: String) -> String {
    path.isEmpty || path.hasPrefix("/") ? path : FileManager.default.currentDirectoryPath + "/" + path
}
