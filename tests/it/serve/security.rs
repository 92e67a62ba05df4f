//! Tests of the form of responses, of the requests that are refused, and of the texts that no response contains.

use serde_json::Value;
use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::servers::Flavour;

use super::{Page, database};

const PATHS: [&str; 9] = [
    "/",
    "/page.js",
    "/page.css",
    "/icon.svg",
    "/overview.json",
    "/status.json",
    "/action.json?name=init",
    "/metrics",
    "/healthz",
];

#[test]
fn responses_have_security_headers_and_no_text_about_the_connection() {
    let database = database(Flavour::of_this_test());
    let _holder = Holder::on(&database, &[]);
    let page = Page::on(&database, &[]);
    let address = format!("127.0.0.1:{}", database.port);
    for path in PATHS {
        let response = page.get(path);
        assert_eq!(response.status, 200, "{path}: {response:#?}");
        let header = |name: &str| response.headers.get(name).map_or("", String::as_str);
        let policy = header("content-security-policy");
        let start = "default-src 'none'; script-src 'self';";
        assert!(policy.starts_with(start), "{policy}");
        let is_open = policy.contains("unsafe") || policy.contains("http");
        assert!(!is_open, "{policy}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        for secret in [&database.password, &database.user, &database.name, &address] {
            let is_secret = !response.body.contains(secret.as_str());
            assert!(is_secret, "{secret} in {path}");
        }
    }
    // The document has the form of the subcommand's output.
    let served = page.json("/status.json");
    let printed = Dlock::typed(&database, "status --all --json").run().stdout;
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let keys = |value: &Value| -> Vec<String> {
        let object = value.as_object().expect("an object");
        object.keys().cloned().collect()
    };
    assert_eq!(keys(&served), keys(&printed));
    let (served, printed) = (&served["locks"][0], &printed["locks"][0]);
    assert_eq!(keys(served), keys(printed));
    assert_eq!(served["holder"], printed["holder"]);
}

#[test]
fn requests_of_other_sites_and_with_other_methods_are_refused() {
    let database = database(Flavour::of_this_test());
    let page = Page::on(&database, &["--allow-host", "locks.example.org"]);
    let request =
        |method: &str, path: &str, headers: &[&str]| page.address.request(method, path, headers);
    for (host, wanted) in [
        ("Host: localhost:9", 200),
        ("Host: 127.0.0.1", 200),
        ("Host: locks.example.org", 200),
        ("Host: rebound.example", 421),
    ] {
        for path in PATHS.iter().filter(|path| **path != "/healthz") {
            let status = request("GET", path, &[host]).status;
            assert_eq!(status, wanted, "{host} {path}");
        }
    }
    let host = "Host: localhost";
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        for path in ["/status.json", "/healthz"] {
            let response = request(method, path, &[host]);
            assert_eq!(response.status, 405, "{method} {path}");
            assert_eq!(response.headers["allow"], "GET, HEAD");
        }
    }
    let head = request("HEAD", "/status.json", &[host]);
    assert_eq!((head.status, &*head.body), (200, ""));
    // The limits of the headers.
    let large = format!("X: {}", "x".repeat(20_000));
    let many = vec!["X: y"; 100];
    let other_site = [host, "Sec-Fetch-Site: cross-site"];
    let other_origin = [host, "Origin: https://evil.example"];
    for (path, headers, wanted) in [
        ("/status.json", &other_site[..], 403),
        ("/overview.json", &other_origin, 403),
        ("/../etc/passwd", &[host], 404),
        ("/action.json", &[host], 400),
        ("/action.json?name=a%0ab", &[host], 400),
        ("/action.json?name=other", &[host], 404),
        ("/", &[], 400),
        ("/", &[host, &large], 431),
        ("/", &many, 431),
    ] {
        let status = request("GET", path, headers).status;
        assert_eq!(status, wanted, "{path} {headers:?}");
    }
}
