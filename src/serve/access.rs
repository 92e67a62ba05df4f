//! The rules for requests: method, host, origin and token. Pure.
//!
//! Browsers send requests on behalf of any page that a user visits, also to addresses that only the user's machine can
//! reach. Such a page cannot read the response, unless the name of its site resolves to this server (DNS rebinding).
//! Therefore the name in the header `Host` must be one under which operators reach this server. The rule for
//! cross-site requests is that of the package `net/http` of Go 1.25.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::{HeaderMap, Method, Request, StatusCode};
use subtle::ConstantTimeEq;

use crate::cli::serve::Listen;
use crate::store::target::Secret;

/// Minimum length of the token in bytes. A shorter token could be guessed.
pub const MIN_TOKEN_LENGTH: usize = 16;

/// The rules for the requests to one listening address.
#[derive(Debug)]
pub struct Access {
    /// Names that the header `Host` may contain, in lower case and without a port.
    names: Vec<String>,
    /// The IP addresses that the header `Host` may contain.
    addresses: Addresses,
    /// The token that each request must contain. None if requests need no token.
    token: Option<Secret>,
}

#[derive(Debug, Clone, Copy)]
enum Addresses {
    /// Loopback addresses only.
    Loopback,
    /// One address.
    Only(IpAddr),
    /// All addresses, because the server listens on all addresses of the machine. This is safe, because DNS rebinding
    /// needs a name.
    Any,
}

/// Reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The method is neither GET nor HEAD.
    Method,
    /// The header `Host` is missing or ambiguous.
    NoHost,
    /// The header `Host` contains another name.
    Host,
    /// The browser sends the request on behalf of another site.
    CrossSite,
    /// The token is missing or wrong.
    Token,
}

impl Refusal {
    /// Returns the status of the response.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoHost => StatusCode::BAD_REQUEST,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::CrossSite => StatusCode::FORBIDDEN,
            Self::Token => StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns the text of the response.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Method => "this server answers only GET and HEAD",
            Self::NoHost => "the request must contain one Host header",
            Self::Host => "this server has another name; see --allow-host in dlock-serve(1)",
            Self::CrossSite => "this server does not answer requests of other sites",
            Self::Token => "the token is missing or wrong; see --token-file in dlock-serve(1)",
        }
    }
}

impl Access {
    /// Creates the rules for a server that listens on `listen`, with the additional names `allowed`.
    #[must_use]
    pub fn new(listen: &Listen, allowed: &[String], token: Option<Secret>) -> Self {
        let mut names: Vec<String> = allowed.iter().map(|name| name.to_lowercase()).collect();
        let addresses = match listen {
            Listen::Tcp(address) if address.ip().is_unspecified() => Addresses::Any,
            Listen::Tcp(address) if !address.ip().is_loopback() => Addresses::Only(address.ip()),
            Listen::Tcp(_) | Listen::Unix(_) => Addresses::Loopback,
        };
        if !matches!(addresses, Addresses::Only(_)) {
            names.push("localhost".to_owned());
        }
        Self {
            names,
            addresses,
            token,
        }
    }

    /// Checks a request. `may_be_followed` is true for the path of the page, to which other sites may link.
    ///
    /// # Errors
    /// Returns the reason why the request is refused.
    pub fn check<B>(&self, request: &Request<B>, may_be_followed: bool) -> Result<(), Refusal> {
        Self::check_method(request)?;
        let headers = request.headers();
        let host = only(headers, HOST.as_str()).ok_or(Refusal::NoHost)?;
        if request.uri().authority().is_some() || !self.is_own(host) {
            return Err(Refusal::Host);
        }
        if is_cross_site(headers, host, may_be_followed) {
            return Err(Refusal::CrossSite);
        }
        match &self.token {
            Some(token) if !contains_token(headers, token.reveal()) => Err(Refusal::Token),
            _ => Ok(()),
        }
    }

    /// Checks only the method.
    ///
    /// # Errors
    /// Fails if the method is neither GET nor HEAD.
    pub fn check_method<B>(request: &Request<B>) -> Result<(), Refusal> {
        match *request.method() {
            Method::GET | Method::HEAD => Ok(()),
            _ => Err(Refusal::Method),
        }
    }

    /// Returns true if `host` is a name or an address of this server. The port is not compared, because it differs if
    /// the connection is forwarded, as by `ssh -L` or `kubectl port-forward`.
    fn is_own(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else {
            return false;
        };
        match name.parse::<IpAddr>() {
            Ok(address) => match self.addresses {
                Addresses::Loopback => address.is_loopback(),
                Addresses::Only(own) => address == own,
                Addresses::Any => true,
            },
            Err(_) => self.names.contains(&name.to_lowercase()),
        }
    }
}

/// Returns the value of the header `name`. None if there is no such header, or more than one.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Returns the name or the address in a header `Host`. An IPv6 address is returned without its brackets. None if the
/// value is not valid.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let has_port = rest.strip_prefix(':').is_some_and(is_port);
    (rest.is_empty() || has_port).then_some(name)
}

/// Returns true if a browser sends the request on behalf of another site. Other programs send neither `Sec-Fetch-Site`
/// nor `Origin`.
fn is_cross_site(headers: &HeaderMap, host: &str, may_be_followed: bool) -> bool {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match value("sec-fetch-site") {
        Some("same-origin" | "none") => false,
        // The user follows a link, and the page is not part of another page.
        Some(_) => {
            let is_navigation = value("sec-fetch-mode") == Some("navigate")
                && value("sec-fetch-dest") == Some("document");
            !(may_be_followed && is_navigation)
        }
        None => match headers.get(ORIGIN) {
            None => false,
            Some(origin) => {
                let own = origin.to_str().ok().and_then(|text| text.split_once("://"));
                own.is_none_or(|(_, own)| own != host)
            }
        },
    }
}

/// Returns true if the header `Authorization` contains `token`, as a bearer token or as the password of any user.
fn contains_token(headers: &HeaderMap, token: &str) -> bool {
    let Some(value) = only(headers, AUTHORIZATION.as_str()) else {
        return false;
    };
    let Some((scheme, credentials)) = value.split_once(' ') else {
        return false;
    };
    let sent = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => credentials.trim().as_bytes().to_vec(),
        "basic" => {
            let Ok(pair) = STANDARD.decode(credentials.trim()) else {
                return false;
            };
            match pair.iter().position(|byte| *byte == b':') {
                Some(colon) => pair[colon + 1..].to_vec(),
                None => return false,
            }
        }
        _ => return false,
    };
    sent.ct_eq(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::{Access, Refusal};
    use crate::store::target::Secret;

    const TOKEN: &str = "0123456789abcdef";

    fn access(listen: &str, token: Option<&str>) -> Access {
        let listen = listen.parse().expect("an address");
        let token = token.map(|token| Secret::new(token.to_owned()));
        Access::new(&listen, &["Locks.example.org".to_owned()], token)
    }

    /// Checks a request with `headers`, one in each line.
    fn check(access: &Access, headers: &str) -> Result<(), Refusal> {
        let mut request = Request::get("/status.json");
        for header in headers.lines() {
            let (name, value) = header.split_once(": ").expect("a header");
            request = request.header(name, value);
        }
        access.check(&request.body(()).expect("a request"), false)
    }

    #[test]
    fn host_must_be_a_name_or_an_address_of_the_server() {
        for (listen, own, foreign) in [
            (
                "127.0.0.1:7878",
                &[
                    "localhost",
                    "127.0.0.1:7878",
                    "127.0.0.1:9",
                    "[::1]:7878",
                    "LOCKS.example.org",
                ][..],
                &[
                    "evil.example",
                    "localhost.evil.example",
                    "10.0.0.1",
                    "[::2]",
                    "127.0.0.1:x",
                    "[::1",
                    "",
                ][..],
            ),
            (
                "unix:/run/x",
                &["localhost", "locks.example.org"],
                &["evil.example", "10.0.0.1"],
            ),
            (
                "10.0.0.1:80",
                &["10.0.0.1", "locks.example.org:80"],
                &["localhost", "10.0.0.2"],
            ),
            (
                "0.0.0.0:80",
                &["10.0.0.1", "localhost", "[fe80::1]:80"],
                &["evil.example"],
            ),
        ] {
            let access = access(listen, None);
            for host in own {
                assert_eq!(
                    check(&access, &format!("Host: {host}")),
                    Ok(()),
                    "{listen} {host}"
                );
            }
            for host in foreign {
                let refused = check(&access, &format!("Host: {host}"));
                assert_eq!(refused, Err(Refusal::Host), "{listen} {host}");
            }
        }
        let access = access("127.0.0.1:7878", None);
        assert_eq!(check(&access, ""), Err(Refusal::NoHost));
        assert_eq!(
            check(&access, "Host: localhost\nHost: localhost"),
            Err(Refusal::NoHost)
        );
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let access = access("127.0.0.1:7878", None);
        let host = "Host: 127.0.0.1:7878";
        for (headers, wanted) in [
            ("Sec-Fetch-Site: same-origin", Ok(())),
            ("Sec-Fetch-Site: none", Ok(())),
            ("Sec-Fetch-Site: cross-site", Err(Refusal::CrossSite)),
            ("Sec-Fetch-Site: same-site", Err(Refusal::CrossSite)),
            ("Origin: http://127.0.0.1:7878", Ok(())),
            ("Origin: http://127.0.0.1:7879", Err(Refusal::CrossSite)),
            ("Origin: null", Err(Refusal::CrossSite)),
            ("Sec-Fetch-Site: same-origin\nOrigin: null", Ok(())),
        ] {
            assert_eq!(
                check(&access, &format!("{host}\n{headers}")),
                wanted,
                "{headers}"
            );
        }
    }

    #[test]
    fn other_sites_may_link_to_the_page_but_not_embed_it() {
        let access = access("127.0.0.1:7878", None);
        let request = |dest: &str| {
            let request = Request::get("/")
                .header("Host", "localhost")
                .header("Sec-Fetch-Site", "cross-site")
                .header("Sec-Fetch-Mode", "navigate")
                .header("Sec-Fetch-Dest", dest);
            request.body(()).expect("a request")
        };
        assert_eq!(access.check(&request("document"), true), Ok(()));
        assert_eq!(
            access.check(&request("iframe"), true),
            Err(Refusal::CrossSite)
        );
        assert_eq!(
            access.check(&request("document"), false),
            Err(Refusal::CrossSite)
        );
    }

    #[test]
    fn token_is_a_bearer_token_or_a_password() {
        let access = access("0.0.0.0:7878", Some(TOKEN));
        for (authorization, wanted) in [
            ("Bearer 0123456789abcdef", Ok(())),
            ("bearer 0123456789abcdef", Ok(())),
            // ops:0123456789abcdef
            ("Basic b3BzOjAxMjM0NTY3ODlhYmNkZWY=", Ok(())),
            ("Bearer 0123456789abcdeg", Err(Refusal::Token)),
            ("Bearer 0123456789abcde", Err(Refusal::Token)),
            ("Bearer ", Err(Refusal::Token)),
            ("Basic !", Err(Refusal::Token)),
            ("Digest 0123456789abcdef", Err(Refusal::Token)),
        ] {
            let headers = format!("Host: localhost\nAuthorization: {authorization}");
            assert_eq!(check(&access, &headers), wanted, "{authorization}");
        }
        assert_eq!(check(&access, "Host: localhost"), Err(Refusal::Token));
    }
}
