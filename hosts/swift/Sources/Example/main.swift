import Foundation
import Lean

struct User: Codable, Limited {
    let id: Int
    let name: String
    static let limits = [Limit.length("name", max: 63)]
}

let engine = try await Engine.spawn()
let model = try await engine.load(ProcessInfo.processInfo.environment["MODEL"] ?? "smollm2.gguf")
let user = try await model.generate(User.self, "Invent a user, for example: ", .json(User(id: 7, name: "Ada")))
print(user.name)
