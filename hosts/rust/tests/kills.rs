//! Host and bridge killed with SIGKILL at random points, 200 times: no process is left behind, no checkpoint file is torn or
//! lost, every pending call ends with an account, and a new bridge goes on from the checkpoint. A file of its own, so that
//! nothing else runs beside it.
#![cfg(target_os = "linux")]

mod common;

use common::Folder;
use lean_client::{Blocks, Engine, Error, Generate, Request, SaveOptions, Session, SessionOptions, Type};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ROUNDS: u32 = 200;
/// Every process of a round has this in its environment, with the round's number.
const MARK: &str = "LEAN_KILLS_ROUND";
/// What a helper's environment says about the bridge and the checkpoint's file.
const HELPER: &str = "LEAN_KILLS_FILE";
/// After so many words a new file is begun: the echo model holds 4096.
const WORDS_MAX: u32 = 900;

/// Evenly spread numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn kill(pid: u32) {
    // SAFETY: no memory is passed; the process is a child of this test, or of a child, and marked as such.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

/// The processes of a round that are alive: a zombie is not.
fn alive(round: u32) -> Vec<u32> {
    let mark = format!("{MARK}={round}\0").into_bytes();
    let marked = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.windows(mark.len()).any(|w| w == mark)
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(marked).collect()
}

/// How long it takes until no process of the round is left.
fn gone(round: u32) -> Duration {
    let start = Instant::now();
    loop {
        let left = alive(round);
        if left.is_empty() {
            return start.elapsed();
        }
        assert!(start.elapsed() < Duration::from_secs(10), "round {round}: {left:?} are left behind");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn spawn(bridge: &Path, round: u32) -> lean_client::Result<Engine> {
    let envs = vec![(MARK.into(), round.to_string().into())];
    Engine::spawn(lean_client::SpawnOptions { bridge: Some(bridge.into()), envs, ..Default::default() })
}

/// `w0 w1 ..`: what a checkpoint of so many words holds.
fn words(range: std::ops::Range<u32>) -> String {
    range.map(|i| format!("w{i} ")).collect()
}

/// A session that goes on where the file's checkpoint was taken, if there is a file, and how many words it holds. They are
/// exactly the first ones.
fn continued(engine: &Engine, file: &Path) -> (Session, u32) {
    let model = engine.load("echo", Default::default()).unwrap();
    if !file.exists() {
        return (model.session(SessionOptions::default()).unwrap(), 0);
    }
    let checkpoint = model.restore_file(file, &Default::default()).expect("a checkpoint that is whole");
    let said: String = model.generate(Request::new(Type::text()).after(&checkpoint)).unwrap();
    let count = said.split_whitespace().count() as u32;
    assert_eq!(said, words(0..count));
    let options = SessionOptions { checkpoint: Some(checkpoint), ..Default::default() };
    (model.session(options).unwrap(), count)
}

/// Words whose tokens, two each, fit the context of the model twice: once as what was said, once as what is said again.
const WORDS_THAT_FIT: u32 = 1200;

/// Appends a word and saves the state, again and again, until the bridge dies; tells what was saved. What is full is
/// saved as it is: a fast machine gets there in one round.
fn keep_saving(session: &Session, mut count: u32, file: &Path, saved: impl Fn(u32)) -> Error {
    loop {
        let step = || {
            if count < WORDS_THAT_FIT {
                session.append(Blocks::new().text(words(count..count + 1)))?;
            }
            session.checkpoint()?.save(file, &SaveOptions { compress: count % 2 == 0, parent: None })
        };
        match step() {
            Ok(_) => count = (count + 1).min(WORDS_THAT_FIT),
            Err(e) => return e,
        }
        saved(count);
    }
}

/// The program that is killed with its bridge, played by this test's own binary.
#[test]
fn helper() {
    let (Some(file), Ok(round)) = (std::env::var_os(HELPER), std::env::var(MARK)) else { return };
    let engine = spawn(&common::built("lean-bridge"), round.parse().unwrap()).unwrap();
    let (session, count) = continued(&engine, Path::new(&file));
    let error = keep_saving(&session, count, Path::new(&file), |n| println!("saved {n}"));
    panic!("{error}");
}

/// Kills a host at some point of its life; answers how many words it had said were saved.
fn kill_host(round: u32, file: &Path, wait: Duration) -> u32 {
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper", "--nocapture"])
        .env(HELPER, file)
        .env(MARK, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(wait);
    host.kill().unwrap();
    host.wait().unwrap();
    let lines = BufReader::new(host.stdout.take().unwrap()).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix("saved ")?.parse().ok()).last().unwrap_or(0)
}

/// Kills a bridge while one call saves, one streams and one has not begun to answer; answers how many words were saved.
fn kill_bridge(round: u32, bridge: &Path, file: &Path, wait: Duration) -> u32 {
    let engine = spawn(bridge, round).unwrap();
    let (session, count) = continued(&engine, file);
    let endless = engine.load("echo?step_ms=60000", Default::default()).unwrap();
    let slow = engine.load("echo?step_ms=1", Default::default()).unwrap();
    let saved = AtomicU32::new(count);
    let errors = std::thread::scope(|scope| {
        let (endless, slow, saved) = (&endless, &slow, &saved);
        let calls = [
            scope.spawn(move || endless.generate::<String>(Request::text_of("one two")).unwrap_err()),
            scope.spawn(move || match slow.stream::<String>(Request::text_of(words(0..3000))) {
                Ok(stream) => stream.filter_map(Result::err).next().expect("no end without an error"),
                Err(e) => e,
            }),
            scope.spawn(move || keep_saving(&session, count, file, |n| saved.store(n, Ordering::SeqCst))),
        ];
        std::thread::sleep(wait);
        kill(engine.pid());
        calls.map(|call| call.join().unwrap())
    });
    for error in errors {
        assert_eq!(error.code, Error::BRIDGE_EXITED, "{error}");
        let exit = error.exit.unwrap();
        assert_eq!((exit.status, exit.signal, exit.stderr.as_str()), (None, Some(9), "a last word\n"));
    }
    saved.into_inner()
}

#[test]
fn two_hundred_kills() {
    if std::env::var_os(HELPER).is_some() {
        return;
    }
    let folder = Folder::new("kills");
    let file = folder.0.join("state.lean");
    let bridge = talkative(&folder.0);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut slowest, mut late, mut torn, mut kept) = (Duration::ZERO, 0, 0, 0);
    let start = Instant::now();
    for round in 0..ROUNDS {
        // Up to where a host has begun to save, and somewhat beyond.
        let wait = Duration::from_micros(random.below(40_000));
        let saved = match round % 2 {
            0 => kill_host(round, &file, wait),
            _ => kill_bridge(round, &bridge, &file, wait / 2),
        };
        let time = gone(round);
        slowest = slowest.max(time);
        late += u32::from(time > Duration::from_millis(250));
        // Another bridge reads what is there: all that was acknowledged, and at most the one that was on its way.
        let engine = spawn(&bridge, ROUNDS + round).unwrap();
        let (_, count) = continued(&engine, &file);
        engine.close();
        assert!(
            count >= saved.max(kept),
            "round {round}: {saved} words were saved, {count} are there, {kept} were"
        );
        kept = count;
        torn += leftovers(&folder.0);
        if count > WORDS_MAX {
            std::fs::remove_file(&file).unwrap();
            kept = 0;
        }
    }
    println!(
        "{ROUNDS} kills in {:.1} s: the slowest bridge was gone after {slowest:?}, {late} took more than 250 ms; {torn} \
         temporary files were left, {kept} words saved",
        start.elapsed().as_secs_f64()
    );
    assert!(kept > 0, "nothing was ever saved");
    // A machine that is busy with something else may hold up one or two.
    assert!(late <= ROUNDS / 20, "{late} bridges outlived their host by more than 250 ms");
}

/// A bridge that has said something on stderr.
fn talkative(folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let file = folder.join("bridge");
    let real = common::built("lean-bridge");
    std::fs::write(&file, format!("#!/bin/sh\necho a last word >&2\nexec {} \"$@\"\n", real.display()))
        .unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

/// Removes temporary files of bridges that were killed while they wrote; the checkpoint's own name never is one.
fn leftovers(folder: &Path) -> usize {
    let all = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    let temporary = all.filter(|path| path.extension().is_some_and(|e| e == "tmp"));
    temporary.map(|path| std::fs::remove_file(path).unwrap()).count()
}
