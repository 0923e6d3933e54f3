let headerBytes = 16
let maxFrameDefault: UInt32 = 1 << 20
let chunkBytes = 256 << 10
let magicBytes: [UInt8] = [0x89, 0x4c, 0x45, 0x41, 0x4e, 0x0d, 0x0a, 0x1a]

enum Flag {
    static let end: UInt16 = 1
    static let error: UInt16 = 2
    static let critical: UInt16 = 4
}

/// A frame as it was read, its head not decoded yet.
struct Frame: Sendable {
    let request: UInt32
    let kind: UInt16
    let flags: UInt16
    let head: [UInt8]
    let tail: [UInt8]

    var isEnd: Bool { flags & Flag.end != 0 }

    var bytes: [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(headerBytes + head.count + tail.count)
        append(UInt32(head.count + tail.count), to: &out)
        append(request, to: &out)
        append(kind, to: &out)
        append(flags, to: &out)
        append(UInt32(head.count), to: &out)
        return out + head + tail
    }
}

private func append(_ value: some FixedWidthInteger, to out: inout [UInt8]) {
    withUnsafeBytes(of: value.littleEndian) { out += $0 }
}

func messageFrame(_ request: UInt32, _ name: String, _ fields: [String: JSON] = [:], _ tail: [UInt8] = [], flags: UInt16 = 0) -> Frame {
    guard let kind = Wire.byName[name] else { preconditionFailure("no message \(name)") }
    return Frame(request: request, kind: kind.kind, flags: flags, head: encodeHead(kind, fields), tail: tail)
}

/// Turns a byte stream, cut anywhere, into frames. A `WireError` from it is final.
struct FrameReader {
    var maxFrame = maxFrameDefault
    private var expectMagic: Bool
    private var buffer: [UInt8] = []
    private var begin = 0
    private var failed: WireError?

    init(maxFrame: UInt32 = maxFrameDefault, expectMagic: Bool = true) {
        self.maxFrame = maxFrame
        self.expectMagic = expectMagic
    }

    var buffered: Int { buffer.count - begin }

    mutating func push(_ bytes: [UInt8]) {
        buffer.removeFirst(begin)
        begin = 0
        buffer += bytes
    }

    /// The next whole frame, or nil if more bytes are needed.
    mutating func next() throws -> Frame? {
        if let failed { throw failed }
        do {
            return try parse()
        } catch let error as WireError {
            failed = error
            buffer = []
            begin = 0
            throw error
        }
    }

    /// To be called at the end of the stream: an unfinished frame throws.
    func finish() throws {
        if let failed { throw failed }
        if buffered > 0 || expectMagic { throw WireError(kind: .truncated, reason: "the stream ended \(buffered) bytes into a frame") }
    }

    private func little(_ offset: Int, _ count: Int) -> UInt32 {
        buffer[begin + offset..<begin + offset + count].reversed().reduce(0) { $0 << 8 | UInt32($1) }
    }

    private mutating func parse() throws -> Frame? {
        if expectMagic, try !takeMagic() { return nil }
        guard buffered >= headerBytes else { return nil }
        let (body, head) = (little(0, 4), little(12, 4))
        if body > maxFrame { throw WireError(kind: .frameTooLarge, reason: "a frame of \(body) bytes; at most \(maxFrame) are allowed") }
        if head > body { throw WireError(kind: .badHeader, reason: "a head of \(head) bytes in a body of \(body)") }
        guard buffered >= headerBytes + Int(body) else { return nil }
        let (request, kind, flags) = (little(4, 4), UInt16(little(8, 2)), UInt16(little(10, 2)))
        let start = begin + headerBytes
        let split = start + Int(head)
        begin = start + Int(body)
        return Frame(request: request, kind: kind, flags: flags, head: Array(buffer[start..<split]), tail: Array(buffer[split..<begin]))
    }

    /// Whether the magic is behind us; a wrong byte is noticed as soon as it arrives.
    private mutating func takeMagic() throws -> Bool {
        let found = buffer[begin...].prefix(magicBytes.count)
        guard magicBytes.starts(with: found) else {
            let text = String(decoding: buffer[begin...].prefix(60), as: UTF8.self)
            throw WireError(kind: .badMagic, reason: "the stream does not begin with the lean magic but with \"\(text)\"")
        }
        if found.count < magicBytes.count { return false }
        begin += magicBytes.count
        expectMagic = false
        return true
    }
}

/// CRC-32 (IEEE), which guards checkpoints on their way.
struct CRC32 {
    private static let table: [UInt32] = (0..<256).map { i in
        (0..<8).reduce(UInt32(i)) { c, _ in c & 1 == 1 ? 0xedb8_8320 ^ c >> 1 : c >> 1 }
    }
    private var state: UInt32 = 0xffff_ffff

    mutating func update(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { state = CRC32.table[Int((state ^ UInt32(byte)) & 0xff)] ^ state >> 8 }
    }

    var value: UInt32 { ~state }

    static func of(_ bytes: some Sequence<UInt8>) -> UInt32 {
        var crc = CRC32()
        crc.update(bytes)
        return crc.value
    }
}
