import Foundation
import XCTest

@testable import Lean

/// The repository that this folder lies in, and its newest build.
enum Repository {
    static let root: String = {
        var folder = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        while !FileManager.default.fileExists(atPath: folder.appendingPathComponent("bridge/PROTOCOL.md").path) { folder.deleteLastPathComponent() }
        return folder.path
    }()
    static let wire = "\(root)/tests/wire"
    static let package = "\(root)/hosts/swift"
    static let smol = environment["LEAN_MODEL_DIR"].map { "\($0)/SmolLM2-135M-Instruct.Q4_1.gguf" } ?? "\(root)/.cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    static let environment = ProcessInfo.processInfo.environment
    static let bridge = built("lean-bridge", "LEAN_BRIDGE")
    static let library = built(libraryName, "LEAN_LIBRARY")

    private static func built(_ name: String, _ variable: String) -> String {
        if let given = environment[variable] { return given }
        let builds = ["release", "debug"].map { "\(root)/target/\($0)/\(name)" }.filter { FileManager.default.fileExists(atPath: $0) }
        func date(_ path: String) -> Date { (try? FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date) ?? .distantPast }
        guard let newest = builds.max(by: { date($0) < date($1) }) else {
            fatalError("there is no \(name) to test with: cargo build --workspace, or set \(variable)")
        }
        return newest
    }
}

/// Both transports, by their names.
let transports: [(name: String, choice: TransportChoice)] = [
    ("process", .process(bridge: Repository.bridge)), ("port", .port(library: Repository.library)),
]

func spawn() async throws -> Engine { try await Engine.spawn(transports[0].choice) }

/// Runs a test over both transports, with an engine and a model.
func withModels(_ path: String = "echo", _ body: (Model) async throws -> Void) async throws {
    for (name, choice) in transports {
        let engine = try await Engine.spawn(choice)
        do {
            try await body(try await engine.load(path))
        } catch {
            XCTFail("\(name): \(error)")
        }
        await engine.close()
    }
}

/// Checks how something fails.
@discardableResult
func fails<T>(_ code: LeanError.Code, _ words: String = "", line: UInt = #line, _ body: () async throws -> T) async -> LeanError? {
    do {
        let value = try await body()
        XCTFail("it gave \(value)", line: line)
    } catch let error as LeanError {
        XCTAssertEqual(error.code, code, error.message, line: line)
        if !words.isEmpty { XCTAssertTrue(error.message.contains(words), error.message, line: line) }
        return error
    } catch {
        XCTFail("\(error)", line: line)
    }
    return nil
}

func temporaryFolder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory.resolvingSymlinksInPath().appendingPathComponent("lean-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
}

/// Whether two documents are the same: members in any order, numbers by their values, `<any>` what there is.
func same(_ want: JSON, _ got: JSON) -> Bool {
    switch (want, got) {
    case (.string("<any>"), _): return true
    case (.number(let a), .number(let b)): return a == b || Double(a) != nil && Double(a) == Double(b)
    case (.array(let a), .array(let b)): return a.count == b.count && zip(a, b).allSatisfy { same($0, $1) }
    case (.object(let a), .object(let b)):
        return a.count == b.count && a.allSatisfy { member in got[member.name].map { same(member.value, $0) } ?? false }
    default: return want == got
    }
}
