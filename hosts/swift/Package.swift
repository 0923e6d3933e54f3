// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "lean",
    platforms: [.macOS(.v14), .iOS(.v17)],
    products: [.library(name: "Lean", targets: ["Lean"])],
    targets: [
        .target(name: "Lean"),
        // The example of the README, which a test runs.
        .executableTarget(name: "Example", dependencies: ["Lean"]),
        .testTarget(name: "LeanTests", dependencies: ["Lean", "Example"]),
    ]
)
