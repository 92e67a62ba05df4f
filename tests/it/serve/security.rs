//! Tests of the requests that are refused, and of the texts that no response contains.

use testkit::cli_runner::Dlock;
use testkit::holder::Holder;
use testkit::servers::{Flavour, shared};

use super::Page;

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
    let database = shared(Flavour::of_this_test()).database("serve");
    let holder = Holder::on(&database, &[]);
    let page = Page::on(&database, &[]);
    for path in PATHS {
        let response = page.get(path);
        assert_eq!(response.status, 200, "{path}: {response:#?}");
        let header = |name: &str| response.headers.get(name).map_or("", String::as_str);
        let policy = header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';"),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && !policy.contains("http"),
            "{policy}"
        );
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
        let server = format!("127.0.0.1:{}", database.port);
        for secret in [&database.password, &database.user, &database.name, &server] {
            assert!(
                !response.body.contains(secret.as_str()),
                "{secret} in {path}"
            );
        }
    }
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn requests_of_other_sites_and_with_other_methods_are_refused() {
    let database = shared(Flavour::of_this_test()).database("serve");
    Holder::on(&database, &[]).end();
    let page = Page::on(&database, &["--allow-host", "locks.example.org"]);
    let status = |method: &str, path: &str, headers: &[&str]| {
        page.address.request(method, path, headers).status
    };
    for (host, wanted) in [
        ("Host: localhost:9", 200),
        ("Host: 127.0.0.1", 200),
        ("Host: locks.example.org", 200),
        ("Host: rebound.example", 421),
    ] {
        for path in PATHS.iter().filter(|path| **path != "/healthz") {
            assert_eq!(status("GET", path, &[host]), wanted, "{host} {path}");
        }
    }
    let host = "Host: localhost";
    let site = |site| ["Host: localhost", site];
    assert_eq!(
        status("GET", "/status.json", &site("Sec-Fetch-Site: cross-site")),
        403
    );
    assert_eq!(
        status(
            "GET",
            "/overview.json",
            &site("Origin: https://evil.example")
        ),
        403
    );
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        for path in ["/status.json", "/healthz"] {
            let response = page.address.request(method, path, &[host]);
            assert_eq!(response.status, 405, "{method} {path}");
            assert_eq!(response.headers["allow"], "GET, HEAD");
        }
    }
    let head = page.address.request("HEAD", "/status.json", &[host]);
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(status("GET", "/../etc/passwd", &[host]), 404);
    assert_eq!(status("GET", "/action.json", &[host]), 400);
    assert_eq!(status("GET", "/action.json?name=a%0ab", &[host]), 400);
    assert_eq!(status("GET", "/action.json?name=other", &[host]), 404);
    assert_eq!(
        page.address
            .send("GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
            .status,
        400
    );
    // The limits of the headers.
    let large = format!("X: {}", "x".repeat(20_000));
    assert_eq!(status("GET", "/", &[host, &large]), 431);
    let many = vec!["X: y"; 100];
    assert_eq!(status("GET", "/", &many), 431);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn status_has_the_form_of_the_subcommand() {
    let database = shared(Flavour::of_this_test()).database("serve");
    let holder = Holder::on(&database, &[]);
    let page = Page::on(&database, &[]);
    let served = page.json("/status.json");
    let printed = Dlock::on(&database, ["status", "--all", "--json"])
        .run()
        .stdout;
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect()
    };
    assert_eq!(keys(&served), keys(&printed));
    assert_eq!(keys(&served["locks"][0]), keys(&printed["locks"][0]));
    assert_eq!(served["locks"][0]["holder"], printed["locks"][0]["holder"]);
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(page.end().status, Some(0));
}
