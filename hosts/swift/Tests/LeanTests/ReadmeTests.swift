import Foundation
import XCTest

@testable import Lean

/// The example of the README is the one that runs, as a program of its own.
final class ReadmeTests: XCTestCase {
    func testTheExampleIsTheReadmes() throws {
        let readme = try String(contentsOfFile: "\(Repository.package)/README.md", encoding: .utf8)
        let parts = readme.components(separatedBy: "```swift\n")
        let code = parts[1].components(separatedBy: "```")[0]
        XCTAssertEqual(try String(contentsOfFile: "\(Repository.package)/Sources/Example/main.swift", encoding: .utf8), code)
    }

    func testTheExampleRuns() throws {
        let run = Process()
        run.executableURL = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent().appendingPathComponent("Example")
        if !FileManager.default.fileExists(atPath: run.executableURL?.path ?? "") {
            run.executableURL = URL(fileURLWithPath: "\(Repository.package)/.build/debug/Example")
        }
        run.environment = Repository.environment.merging(["LEAN_BRIDGE": Repository.bridge, "MODEL": "echo"]) { $1 }
        let out = Pipe()
        run.standardOutput = out
        try run.run()
        let text = String(decoding: out.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        run.waitUntilExit()
        XCTAssertEqual(text, "Ada\n")
        XCTAssertEqual(run.terminationStatus, 0)
    }
}
