//! A small HTTP client, with which tests send any bytes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(40);

#[derive(Clone, Debug)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// A response. The names of headers are in lower case.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

pub trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

impl Address {
    #[track_caller]
    pub fn connect(&self) -> Box<dyn Stream> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).expect("the server accepts");
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                Box::new(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).expect("the server accepts");
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                Box::new(stream)
            }
        }
    }

    pub fn url(&self) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}/"),
            Self::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Sends a request with these headers on a new connection, and returns the whole response.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, headers: &[&str]) -> HttpResponse {
        let headers: String = headers.iter().flat_map(|header| [header, "\r\n"]).collect();
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"
        ))
    }

    /// Sends `request` on a new connection, and returns the whole response.
    #[track_caller]
    pub fn send(&self, request: &str) -> HttpResponse {
        let mut stream = self.connect();
        stream
            .write_all(request.as_bytes())
            .expect("the request is sent");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("the response ends");
        HttpResponse::parse(&String::from_utf8(bytes).expect("the response is UTF-8"))
    }
}

impl HttpResponse {
    #[track_caller]
    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status
                .and_then(|code| code.parse().ok())
                .unwrap_or_else(|| panic!("no status in {text:?}")),
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        }
    }
}
