//! One GET or HEAD at a time, with the redirects of the hub and errors that say what to do.

use lean_engine::{Error, Result};
use std::time::Duration;
use ureq::http::Response;
use ureq::{Agent, Body};

const MAX_REDIRECTS: usize = 10;
const CONNECT: Duration = Duration::from_secs(20);
/// Without a byte for this long a transfer counts as broken.
const STALLED: Duration = Duration::from_secs(60);

pub struct Client {
    agent: Agent,
    /// Where the token may go: nowhere but to the hub itself.
    origin: String,
    token: Option<String>,
}

impl Client {
    /// `endpoint` is the hub or a mirror of it.
    pub fn new(endpoint: &str, token: Option<String>) -> Result<Self> {
        let origin = origin(endpoint).ok_or_else(|| {
            Error::invalid("HF_ENDPOINT", format_args!("{endpoint:?} is no http or https address"))
        })?;
        if token.as_ref().is_some_and(|t| !t.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(Error::invalid("HF_TOKEN", "holds characters that no token has"));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("lean/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(STALLED))
            .timeout_per_read(Some(STALLED));
        if origin.starts_with("http://127.0.0.1") {
            config = config.proxy(None);
        }
        Ok(Client { agent: config.build().into(), origin: origin.into(), token })
    }

    /// Follows redirects to the last answer; for HEAD only to the first that names the file's digest.
    pub fn request(&self, method: Method, url: &str, from: u64) -> Result<Response<Body>> {
        let mut url = url.to_string();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.once(method, &url, from)?;
            let status = answer.status().as_u16();
            let described = method == Method::Head && header(&answer, "x-linked-etag").is_some();
            let next = match (status, header(&answer, "location")) {
                (301 | 302 | 303 | 307 | 308, Some(location)) if !described => join(&url, location),
                (300..=399, _) if !described => None,
                _ => return self.check(&url, answer),
            };
            let bad = || failed(&url, "it redirects to an address that cannot be used");
            let next = next.ok_or_else(bad)?;
            if url.starts_with("https:") && !next.starts_with("https:") {
                return Err(failed(&url, "it redirects from https to http"));
            }
            url = next;
        }
        Err(failed(&url, "too many redirects"))
    }

    fn once(&self, method: Method, url: &str, from: u64) -> Result<Response<Body>> {
        let mut request = match method {
            Method::Get => self.agent.get(url),
            Method::Head => self.agent.head(url),
        };
        request = request.header("accept-encoding", "identity");
        if from > 0 {
            request = request.header("range", format!("bytes={from}-"));
        }
        if let Some(token) = self.token.as_ref().filter(|_| origin(url) == Some(&self.origin)) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.call().map_err(|e| {
            let advice = "is there a network? HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy";
            failed(url, format_args!("cannot reach it: {e} ({advice})"))
        })
    }

    /// Status codes that are errors, in words.
    fn check(&self, url: &str, answer: Response<Body>) -> Result<Response<Body>> {
        let refused = |reason: &str| Err(Error::invalid(shown(url), reason));
        match answer.status().as_u16() {
            // A redirect is here only because it described the file.
            200 | 206 | 300..=399 | 416 => Ok(answer),
            401 if self.token.is_none() => {
                refused("there is no such repository, or it needs a token (set HF_TOKEN)")
            }
            401 => refused("there is no such repository, or HF_TOKEN is not a valid token for it"),
            403 => refused("access is refused: accept the model's terms on its page, and set HF_TOKEN to a token that may read it"),
            404 => refused("there is no such repository, revision or file"),
            429 => Err(failed(url, "too many requests; try again later")),
            status => Err(failed(url, format_args!("the server answered with status {status}"))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
}

/// A network error.
pub fn failed(url: &str, reason: impl std::fmt::Display) -> Error {
    Error::Io { path: shown(url).into(), reason: reason.to_string() }
}

/// An address without its query, which may hold a signature.
fn shown(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

pub fn header<'a>(answer: &'a Response<Body>, name: &str) -> Option<&'a str> {
    answer.headers().get(name)?.to_str().ok()
}

/// `scheme://host:port`.
fn origin(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let usable = matches!(scheme, "http" | "https") && host > 0;
    usable.then(|| &url[..scheme.len() + 3 + host])
}

/// A redirect's address: absolute, or a path on the same host.
fn join(url: &str, location: &str) -> Option<String> {
    match location {
        l if l.starts_with("//") => Some(format!("{}:{l}", url.split_once(':')?.0)),
        l if l.starts_with('/') => Some(format!("{}{l}", origin(url)?)),
        l => origin(l).map(|_| l.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        let cases = [
            ("https://hub.example/a/b?c", Some("https://hub.example")),
            ("http://127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("https://?x", None),
            ("ftp://hub.example/", None),
            ("hub.example", None),
        ];
        for (url, expected) in cases {
            assert_eq!(origin(url), expected, "{url}");
        }
        let base = "https://hub.example/a/b";
        for (location, expected) in [
            ("/c", Some("https://hub.example/c")),
            ("//cdn.example/d", Some("https://cdn.example/d")),
            ("https://cdn.example/e?s=1", Some("https://cdn.example/e?s=1")),
            ("relative", None),
        ] {
            assert_eq!(join(base, location).as_deref(), expected, "{location}");
        }
        assert!(Client::new("https://hub.example", Some("a\r\nb".into())).is_err());
        assert!(Client::new("hub.example", None).is_err());
    }
}
