#if !(os(iOS) || os(tvOS) || os(watchOS) || os(visionOS))
    import Foundation

    /// Bytes of stderr that an error carries.
    private let stderrTail = 4096

    private let startLock = NSLock()

    /// The spawned bridge. Its pipes are used directly: a thread of Foundation's own in between would be one more that can wait.
    final class BridgeProcess: Transport, @unchecked Sendable {
        let pid: Int32
        private let output: Int32
        private let errors: Int32
        private let lock = NSLock()
        /// The pipe to its stdin; -1 once it is closed.
        private var input: Int32
        /// What `waitpid` said; from then on its number may be another process's.
        private var status: Int32?
        private var exit: BridgeExit?
        private var tail: [UInt8] = []
        private let drained = DispatchSemaphore(value: 0)

        init(file: String, arguments: [String] = [], environment: [String: String]? = nil) throws {
            var pipes: [(read: Int32, write: Int32)] = []
            // Two at once could hand their pipes to each other's process, between `pipe` and `fcntl`.
            startLock.lock()
            defer { startLock.unlock() }
            do {
                for _ in 0..<3 { pipes.append(try makePipe()) }
                let words = [file, "--parent-pid", String(getpid())] + arguments
                pid = try spawnProcess(words, environment, [pipes[0].read, pipes[1].write, pipes[2].write])
            } catch {
                for pipe in pipes { _ = (close(pipe.read), close(pipe.write)) }
                throw error
            }
            for fd in [pipes[0].read, pipes[1].write, pipes[2].write] { close(fd) }
            (input, output, errors) = (pipes[0].write, pipes[1].read, pipes[2].read)
            Thread.detachNewThread { self.drain() }
        }

        deinit {
            end()
            close(output)
        }

        func read() -> [UInt8]? {
            while !isReadable(output, within: 1000) {
                // Where another process has its stdout too, that does not end with it.
                if hasEnded(), !isReadable(output, within: 0) { return nil }
            }
            return readSome(output)
        }

        func write(_ bytes: [UInt8]) -> Bool {
            // A bridge that is gone is an error of the write, and no signal that ends this program.
            blockPipeSignal()
            var at = 0
            while at < bytes.count {
                let fd = lock.withLock { input }
                guard fd >= 0 else { return false }
                let count = bytes[at...].withUnsafeBytes { systemWrite(fd, $0.baseAddress, $0.count) }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                at += count
            }
            return true
        }

        func end() {
            lock.withLock {
                if input >= 0 { close(input) }
                input = -1
            }
        }

        func kill() {
            lock.withLock { if status == nil { _ = systemKill(pid, SIGKILL) } }
        }

        func account(patience: Duration) -> BridgeExit {
            let late = ContinuousClock.now + patience
            var killed = false
            while true {
                if let exit = reap() { return exit }
                if !killed, ContinuousClock.now > late {
                    kill()
                    killed = true
                }
                usleep(2000)
            }
        }

        private func hasEnded() -> Bool {
            lock.withLock {
                if status != nil { return true }
                var said: Int32 = 0
                let found = waitpid(pid, &said, WNOHANG)
                // Where it is no child any more, somebody else has waited for it.
                if found == pid { status = said } else if found < 0, errno == ECHILD { status = -1 }
                return status != nil
            }
        }

        private func reap() -> BridgeExit? {
            guard hasEnded() else { return nil }
            if let exit = lock.withLock({ exit }) { return exit }
            // A grandchild may hold stderr open: what it says later is not waited for.
            _ = drained.wait(timeout: .now() + 1)
            return lock.withLock {
                let words = String(decoding: tail, as: UTF8.self)
                let account = describe(status ?? -1, words)
                exit = account
                return account
            }
        }

        private func drain() {
            while let bytes = readSome(errors) {
                lock.withLock { tail = Array((tail + bytes).suffix(stderrTail)) }
            }
            close(errors)
            drained.signal()
        }
    }

    private func describe(_ status: Int32, _ words: String) -> BridgeExit {
        if status < 0 { return BridgeExit(stderr: words, how: "ended, and something else waited for it") }
        if status & 0x7f == 0 {
            let code = status >> 8 & 0xff
            return BridgeExit(status: code, stderr: words, how: "exited with status \(code)")
        }
        let names: [Int32: String] = [
            SIGABRT: "SIGABRT", SIGBUS: "SIGBUS", SIGFPE: "SIGFPE", SIGHUP: "SIGHUP", SIGILL: "SIGILL", SIGINT: "SIGINT",
            SIGKILL: "SIGKILL", SIGPIPE: "SIGPIPE", SIGSEGV: "SIGSEGV", SIGTERM: "SIGTERM", SIGTRAP: "SIGTRAP",
        ]
        let name = names[status & 0x7f] ?? "signal \(status & 0x7f)"
        return BridgeExit(signal: name, stderr: words, how: "was killed by \(name)")
    }

    private func makePipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        #if canImport(Darwin)
            // No program that is started meanwhile gets them, if it is started as in `spawnProcess`; a write to a bridge that is gone is no
            // signal. Not run by the repository's tests, which know Linux alone.
            if pipe(&ends) != 0 { throw notStarted(errno) }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            _ = fcntl(ends[1], F_SETNOSIGPIPE, 1)
        #else
            // Closed in every other program from the start. Swift does not see the declaration, which the C library's header hides.
            typealias Pipe2 = @convention(c) (UnsafeMutablePointer<Int32>, Int32) -> Int32
            guard let symbol = dlsym(nil, "pipe2") else { throw notStarted(ENOSYS) }
            if unsafeBitCast(symbol, to: Pipe2.self)(&ends, O_CLOEXEC) != 0 { throw notStarted(errno) }
        #endif
        return (ends[0], ends[1])
    }

    private func notStarted(_ number: Int32) -> LeanError {
        .exited(BridgeExit(how: "could not be started: \(String(cString: strerror(number)))"))
    }

    /// Starts a program with these words and stdin, stdout and stderr.
    private func spawnProcess(_ words: [String], _ environment: [String: String]?, _ ends: [Int32]) throws -> Int32 {
        #if canImport(Darwin)
            var actions: posix_spawn_file_actions_t?
            var attributes: posix_spawnattr_t?
        #else
            var actions = posix_spawn_file_actions_t()
            var attributes = posix_spawnattr_t()
        #endif
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        #if canImport(Darwin)
            posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_CLOEXEC_DEFAULT))
        #endif
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (target, end) in ends.enumerated() { posix_spawn_file_actions_adddup2(&actions, end, Int32(target)) }
        let given = (environment ?? ProcessInfo.processInfo.environment).map { "\($0.key)=\($0.value)" }
        let (argv, envp) = (words.map { strdup($0) } + [nil], given.map { strdup($0) } + [nil])
        defer { for pointer in argv + envp { free(pointer) } }
        var pid: pid_t = 0
        let failed = posix_spawn(&pid, words[0], &actions, &attributes, argv, envp)
        if failed != 0 { throw notStarted(failed) }
        return pid
    }

    private func readSome(_ fd: Int32) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = systemRead(fd, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            return count > 0 ? Array(buffer[..<count]) : nil
        }
    }

    private func isReadable(_ fd: Int32, within milliseconds: Int32) -> Bool {
        var one = pollfd(fd: fd, events: Int16(POLLIN), revents: 0)
        // An error is for the read to find.
        return poll(&one, 1, milliseconds) != 0 && (one.revents != 0 || errno != EINTR)
    }

    /// In the calling thread: writing to a closed pipe then is an error and no more.
    private func blockPipeSignal() {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &set, nil)
    }

    private func systemRead(_ fd: Int32, _ to: UnsafeMutableRawPointer, _ count: Int) -> Int { read(fd, to, count) }
    private func systemWrite(_ fd: Int32, _ from: UnsafeRawPointer?, _ count: Int) -> Int { write(fd, from, count) }
    private func systemKill(_ pid: Int32, _ signal: Int32) -> Int32 { kill(pid, signal) }
#endif
