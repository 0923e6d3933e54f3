//! Against a small server on this machine that can misbehave on purpose.

use super::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What came in: method, path, and the headers that matter.
#[derive(Debug, Clone, PartialEq)]
struct Seen {
    method: String,
    path: String,
    range: Option<String>,
    token: Option<String>,
}

/// What goes out. `body` is cut to what `send` says, with the length of the whole in the header.
#[derive(Clone, Default)]
struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    send: Option<usize>,
}

type Handler = dyn Fn(&Seen, usize) -> Reply + Send + Sync;

/// Answers each request on a connection of its own; it ends with the process.
struct Server {
    address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    fn new(handler: impl Fn(&Seen, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, handler): (_, Arc<Handler>) = (seen.clone(), Arc::new(handler));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (log, handler) = (log.clone(), handler.clone());
                std::thread::spawn(move || serve(stream, &log, &*handler));
            }
        });
        Server { address, seen }
    }

    fn hub(&self, token: Option<&str>) -> Hub {
        Hub::new(&self.address, token.map(String::from), "owner/repo", "main").unwrap()
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, log: &Mutex<Vec<Seen>>, handler: &Handler) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(|l| l.ok());
    let first = lines.next().unwrap_or_default();
    let mut words = first.split(' ').map(String::from);
    let headers: HashMap<String, String> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(": ").map(|(k, v)| (k.to_ascii_lowercase(), v.to_string())))
        .collect();
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return };
    let token = headers.get("authorization").cloned();
    let seen = Seen { method, path, range: headers.get("range").cloned(), token };
    let number = {
        let mut log = log.lock().unwrap();
        log.push(seen.clone());
        log.iter().filter(|s| s.method == seen.method).count()
    };
    let reply = handler(&seen, number);
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status);
    if !reply.headers.iter().any(|h| h.0 == "content-length") {
        head += &format!("content-length: {}\r\n", reply.body.len());
    }
    reply.headers.iter().for_each(|(k, v)| head += &format!("{k}: {v}\r\n"));
    let send = reply.send.unwrap_or(reply.body.len());
    let body: &[u8] = if seen.method == "HEAD" { &[] } else { &reply.body[..send] };
    let _ = stream.write_all((head + "\r\n").as_bytes()).and_then(|()| stream.write_all(body));
}

fn content() -> Vec<u8> {
    (0..1_000_000u32).map(|i| (i * 7 / 3) as u8).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// As the hub describes a large file: a redirect with its digest and size.
fn described(digest: &str, bytes: usize, location: &str) -> Reply {
    let header = |k: &str, v: String| (k.to_string(), v);
    Reply {
        status: 302,
        headers: vec![
            header("location", location.into()),
            header("x-linked-etag", format!("\"{digest}\"")),
            header("x-linked-size", bytes.to_string()),
        ],
        ..Default::default()
    }
}

/// The bytes from a range on, as a storage host sends them.
fn ranged(seen: &Seen, content: &[u8]) -> Reply {
    match seen.range.as_ref().map(|r| r["bytes=".len()..].trim_end_matches('-').parse::<usize>().unwrap()) {
        Some(from) => Reply {
            status: 206,
            headers: vec![(
                "content-range".into(),
                format!("bytes {from}-{}/{}", content.len() - 1, content.len()),
            )],
            body: content[from..].to_vec(),
            send: None,
        },
        None => Reply { status: 200, body: content.to_vec(), ..Default::default() },
    }
}

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("lean-pull-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_file_comes_through_a_redirect_and_the_token_stays_with_the_hub() {
    let storage = Server::new(|seen, _| ranged(seen, &content()));
    let location = format!("{}/blob?signature=1", storage.address);
    let server = Server::new(move |_, _| described(&sha256(&content()), content().len(), &location));
    let dir = folder("redirect");
    let pulled = server.hub(Some("secret")).pull("sub dir/model.gguf", &dir).unwrap();
    assert_eq!(pulled.sha256, Some(sha256(&content())));
    assert_eq!((pulled.bytes, pulled.resumed), (1_000_000, 0));
    assert!(fs::read(&pulled.path).unwrap() == content());
    assert_eq!(names(&dir), ["model.gguf"]);
    assert!(server.seen().iter().all(|s| s.path == "/owner/repo/resolve/main/sub%20dir/model.gguf"));
    assert!(server.seen().iter().all(|s| s.token.as_deref() == Some("Bearer secret")));
    assert!(storage.seen().iter().all(|s| s.token.is_none() && s.method == "GET"));

    // A second call asks, compares and fetches nothing.
    let again = server.hub(None).pull("sub dir/model.gguf", &dir).unwrap();
    assert_eq!((again.resumed, storage.seen().len()), (1_000_000, 1));
    fs::write(dir.join("model.gguf"), b"another").unwrap();
    let error = server.hub(None).pull("sub dir/model.gguf", &dir).unwrap_err();
    assert!(error.to_string().contains("another file"), "{error}");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn answers_that_break_off_are_gone_on_with() {
    // Each GET brings 300 000 bytes of what it promised.
    let server = Server::new(|seen, _| match seen.method.as_str() {
        "HEAD" => described(&sha256(&content()), content().len(), "/unused"),
        _ => {
            let reply = ranged(seen, &content());
            Reply { send: Some(reply.body.len().min(300_000)), ..reply }
        }
    });
    let dir = folder("broken");
    let pulled = server.hub(None).pull("model.gguf", &dir).unwrap();
    assert!(fs::read(&pulled.path).unwrap() == content());
    let ranges: Vec<_> = server.seen().into_iter().filter(|s| s.method == "GET").map(|s| s.range).collect();
    let expected = [None, Some(300_000), Some(600_000), Some(900_000)];
    assert_eq!(ranges, expected.map(|n: Option<u32>| n.map(|n| format!("bytes={n}-"))));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_part_of_an_earlier_call_is_gone_on_with_unless_the_file_changed() {
    let server = Server::new(|seen, _| match seen.method.as_str() {
        "HEAD" => described(&sha256(&content()), content().len(), "/unused"),
        _ => ranged(seen, &content()),
    });
    let dir = folder("resume");
    fs::create_dir_all(&dir).unwrap();
    let part = dir.join(format!("model.gguf.{}.part", &sha256(&content())[..16]));
    fs::write(&part, &content()[..400_000]).unwrap();
    fs::write(dir.join("model.gguf.0123456789abcdef.part"), b"of another version").unwrap();
    let pulled = server.hub(None).pull("model.gguf", &dir).unwrap();
    assert_eq!(pulled.resumed, 400_000);
    assert!(fs::read(&pulled.path).unwrap() == content());
    assert_eq!(server.seen().last().unwrap().range.as_deref(), Some("bytes=400000-"));
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_server_without_ranges_sends_everything_again() {
    let server = Server::new(|seen, number| match seen.method.as_str() {
        "HEAD" => described(&sha256(&content()), content().len(), "/unused"),
        _ => Reply {
            status: 200,
            body: content(),
            send: (number == 1).then_some(500_000),
            ..Default::default()
        },
    });
    let dir = folder("no-ranges");
    let pulled = server.hub(None).pull("model.gguf", &dir).unwrap();
    assert!(fs::read(&pulled.path).unwrap() == content());
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_wrong_digest_leaves_nothing() {
    let server = Server::new(|seen, _| match seen.method.as_str() {
        "HEAD" => described(&sha256(b"something else"), content().len(), "/unused"),
        _ => ranged(seen, &content()),
    });
    let dir = folder("digest");
    let error = server.hub(None).pull("model.gguf", &dir).unwrap_err();
    assert!(matches!(error, Error::BadModel { .. }), "{error:?}");
    assert!(error.to_string().contains("SHA-256"), "{error}");
    assert_eq!(names(&dir), [""; 0]);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_connection_that_brings_nothing_is_given_up_and_the_part_stays() {
    let server = Server::new(|seen, number| match seen.method.as_str() {
        "HEAD" => described(&sha256(&content()), content().len(), "/unused"),
        _ => Reply { send: Some(if number == 1 { 1000 } else { 0 }), ..ranged(seen, &content()) },
    });
    let dir = folder("nothing");
    let error = server.hub(None).pull("model.gguf", &dir).unwrap_err();
    assert!(error.to_string().contains("at 1000 of 1000000 bytes; run it again"), "{error}");
    let left = names(&dir);
    assert!(left.len() == 1 && left[0].ends_with(".part"), "{left:?}");
    assert_eq!(fs::metadata(dir.join(&left[0])).unwrap().len(), 1000);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn refusals_say_what_to_do() {
    let cases = [
        (401, None, "set HF_TOKEN", 100),
        (401, Some("t"), "HF_TOKEN is not a valid token", 100),
        (403, Some("t"), "accept the model's terms", 100),
        (404, None, "no such repository, revision or file", 100),
        (429, None, "too many requests", 410),
        (500, None, "status 500", 410),
    ];
    for (status, token, expected, code) in cases {
        let server = Server::new(move |_, _| Reply { status, ..Default::default() });
        for result in [
            server.hub(token).pull("m.gguf", &folder("refused")).map(drop),
            server.hub(token).files().map(drop),
        ] {
            let error = result.unwrap_err();
            assert!(error.to_string().contains(expected), "{error} does not say {expected:?}");
            assert!(!error.to_string().contains("Bearer"), "{error}");
            assert_eq!(error.code(), code, "{error}");
        }
    }
    let endless = Server::new(|_, _| Reply {
        status: 302,
        headers: vec![("location".into(), "/again".into())],
        ..Default::default()
    });
    let error = endless.hub(None).files().unwrap_err();
    assert!(error.to_string().contains("too many redirects"), "{error}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Hub::new(&format!("http://{nobody}"), None, "a/b", "main").unwrap().files().unwrap_err();
    assert!(error.to_string().contains("is there a network"), "{error}");
    for repo in ["a", "a/b/c", "../b", "a/b?c", "/b"] {
        assert!(
            matches!(Hub::new("http://h", None, repo, "main"), Err(Error::InvalidArgument { .. })),
            "{repo}"
        );
    }
}

#[test]
fn files_are_listed() {
    let server = Server::new(|seen, _| {
        assert_eq!(seen.path, "/api/models/owner/repo/tree/main?recursive=true");
        let body = br#"[{"type":"directory","path":"q"},{"type":"file","path":"q/b.gguf","size":7},{"type":"file","path":"README.md","size":3}]"#;
        Reply { status: 200, body: body.to_vec(), ..Default::default() }
    });
    let file = |path: &str, bytes| RemoteFile { path: path.into(), bytes };
    assert_eq!(server.hub(None).files().unwrap(), [file("README.md", 3), file("q/b.gguf", 7)]);
}

#[test]
fn a_small_file_has_no_digest_but_a_size() {
    let server = Server::new(|seen, _| {
        let etag = ("etag".to_string(), "\"0123456789012345678901234567890123456789\"".to_string());
        let reply = Reply { status: 200, body: b"{}".to_vec(), headers: vec![etag], send: None };
        assert!(seen.path.ends_with("/config.json"));
        reply
    });
    let dir = folder("small");
    let pulled = server.hub(None).pull("config.json", &dir).unwrap();
    assert_eq!((pulled.bytes, pulled.sha256), (2, None));
    assert_eq!(names(&dir), ["config.json"]);
    fs::remove_dir_all(&dir).unwrap();
}
