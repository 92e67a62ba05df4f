//! Tests of the connection to the database: its queries, and its failures.

use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::Holder;
use testkit::http::HttpResponse;
use testkit::proxy::{AcceptMode, Flow, Kind, Proxy};
use testkit::servers::Flavour;

use super::{Page, database};

/// Returns the overview, or the response without one if `tag` is its entity tag.
fn overview(page: &Page, tag: &str) -> HttpResponse {
    let tag = format!("If-None-Match: {tag}");
    page.address
        .request("GET", "/overview.json", &["Host: localhost", &tag])
}

#[test]
fn overview_is_sent_again_only_after_a_change() {
    let database = database(Flavour::of_this_test());
    let page = Page::on(&database, &["--interval=100ms"]);
    let first = overview(&page, "\"0123456789abcdef\"");
    assert_eq!(first.status, 200, "{first:#?}");
    let tag = first.headers["etag"].as_str();
    let time = |response: &HttpResponse| {
        let time = response.headers["dlock-server-time-ms"].parse::<u64>();
        time.expect("a time")
    };
    // The records are read again, and are the same. A proxy that compresses documents marks their tags as weak.
    eventually("the records are read again", || {
        let later = overview(&page, &format!("W/{tag}"));
        assert_eq!((later.status, later.body.as_str()), (304, ""));
        assert_eq!(later.headers["etag"], tag);
        time(&later) > time(&first)
    });
    let _holder = Holder::on(&database, &[]);
    eventually("the change is sent", || {
        overview(&page, tag).body.contains("\"held\"")
    });
}

#[test]
fn all_viewers_share_one_query_per_interval_and_nobody_else_causes_one() {
    let database = database(Flavour::of_this_test());
    let proxy = Proxy::to(database.port);
    let page = Page::on(&database.through(proxy.port()), &["--interval=300ms"]);
    let (start, before) = (Instant::now(), proxy.asked(Kind::Get));
    // All viewers ask again and again.
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                while proxy.asked(Kind::Get) < before + 4 {
                    assert_eq!(page.get("/overview.json").status, 200);
                }
            });
        }
    });
    let asked = proxy.asked(Kind::Get) - before;
    let most = 1 + start.elapsed().as_millis() / 300;
    assert!(asked as u128 <= most, "{asked} queries");
    assert_eq!(proxy.connections(), 1);
    let mut before = proxy.asked(Kind::Get);
    let mut unchanged = 0;
    eventually("no more queries are sent", || {
        // A request without a query shows that the server is running.
        assert_eq!(page.get("/healthz").status, 200);
        let now = proxy.asked(Kind::Get);
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
        // 200 polls of 5 ms are three intervals.
        unchanged >= 200
    });
    assert_eq!(page.json("/status.json")["locks"][0]["action"], "init");
    assert_eq!(proxy.asked(Kind::Get), before + 1);
}

#[test]
fn page_starts_and_survives_without_the_database_and_says_why_without_secrets() {
    let database = database(Flavour::of_this_test());
    let proxy = Proxy::to(database.port);
    proxy.door(AcceptMode::Refused);
    // A page with a long interval recovers soon after an outage.
    let hourly = Page::on(&database.through(proxy.port()), &["--interval=1h"]);
    hourly.running.wait_for_output("cannot reach 127.0.0.1:");
    let response = hourly.get("/overview.json");
    let outage = (503, "the database does not respond");
    assert_eq!((response.status, &*response.body), outage);
    proxy.door(AcceptMode::Open);
    hourly.becomes("/status.json", 200);
    drop(hourly);

    let page = Page::on(&database.through(proxy.port()), &["--interval=200ms"]);
    let is_up = |number: u8| {
        let metrics = page.get("/metrics").body;
        let up = format!("\ndlock_up {number}\n");
        assert!(metrics.contains(&up), "{metrics}");
    };
    page.becomes("/overview.json", 200);
    proxy.door(AcceptMode::Refused);
    proxy.reset();
    page.becomes("/overview.json", 503);
    let response = page.get("/status.json");
    assert_eq!((response.status, &*response.body), outage);
    is_up(0);
    page.running.wait_for_output("cannot reach 127.0.0.1:");
    proxy.door(AcceptMode::Open);
    page.becomes("/status.json", 200);
    is_up(1);
    page.running.wait_for_output("the database responds again");
    // Requests also end while the database is silent.
    proxy.responses(Flow::Hold);
    page.becomes("/status.json", 503);
    is_up(0);
    assert_eq!(page.get("/").status, 200);
    assert_eq!(page.get("/healthz").status, 200);
    proxy.responses(Flow::Pass);
    page.becomes("/status.json", 200);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn action_document_follows_the_runs_of_the_action() {
    for flavour in Flavour::ALL {
        let database = database(flavour);
        let holder = Holder::on(&database, &["--note", "release 42"]);
        let page = Page::on(&database, &["--interval=100ms"]);
        let action = || page.json("/action.json?name=init");
        let document = action();
        assert_eq!(document["lock"]["note"], "release 42");
        assert_eq!(document["runs"].as_array().map(Vec::len), Some(1));
        let token = &document["lock"]["token"];
        let line = format!("dlock release init --token {token}");
        assert_eq!(document["commands"][0]["line"], *line);
        assert_eq!(holder.end().status, Some(3));
        eventually("the run is shown", || {
            action()["runs"][0]["token"] == *token
        });
        let document = action();
        let run = &document["runs"][0];
        assert_eq!(run["result"], "exit 3");
        assert_eq!(run["is_good"], false);
        assert!(run["waited_ms"].is_u64(), "{run:#}");
        // The age of a run grows while nothing happens, and not only when the runs are read again after a minute.
        let start = Instant::now();
        let age = |document: &Value| document["runs"][0]["ended_ago_ms"].as_u64();
        eventually("the run is a second older", || {
            age(&action()) >= age(&document).map(|age| age + 1000)
        });
        assert!(start.elapsed() < Duration::from_secs(30), "{flavour}");
        // The command does what the page says.
        let command = document["commands"][0]["line"].as_str().expect("a line");
        let words = command.strip_prefix("dlock ").expect("a command of dlock");
        Dlock::typed(&database, words).run().exited(0);
    }
}

#[test]
fn viewers_of_one_lock_share_the_query_for_its_runs() {
    const VIEWERS: usize = 20;
    let database = database(Flavour::of_this_test());
    let proxy = Proxy::to(database.port);
    // The records are read at the start.
    let page = Page::on(&database.through(proxy.port()), &["--interval=1h"]);
    let before = proxy.asked(Kind::Get);
    let sockets = page.sockets();
    // The requests arrive while the database does not respond.
    proxy.responses(Flow::Hold);
    let documents = thread::scope(|scope| {
        let request = || page.json("/action.json?name=init")["runs"][0]["result"].clone();
        let requests: Vec<_> = (0..VIEWERS).map(|_| scope.spawn(request)).collect();
        eventually("the requests arrive", || {
            page.sockets() == sockets + VIEWERS
        });
        proxy.wait_asked(Kind::Get, before + 1);
        proxy.responses(Flow::Pass);
        let documents = requests.into_iter().map(ScopedJoinHandle::join);
        documents.collect::<Result<Vec<_>, _>>().expect("responses")
    });
    assert_eq!(documents, vec![json!("exit 3"); VIEWERS]);
    assert_eq!(proxy.asked(Kind::Get) - before, 1);
}

#[test]
fn later_viewer_learns_how_old_the_records_are_and_their_times_pass() {
    let database = database(Flavour::of_this_test());
    let _holder = Holder::on(&database, &["--ttl=1h"]);
    // The query of the start is enough for this test.
    let page = Page::on(&database, &["--interval=1m"]);
    eventually("the records are old", || {
        let age = page.get("/overview.json").headers["dlock-age-ms"].parse::<u64>();
        age.is_ok_and(|age| age > 3000)
    });
    assert!(page.json("/action.json?name=init")["age_ms"].as_u64() > Some(3000));
    // A browser shows the same age, and does not count it from the arrival.
    let browser = page.view("");
    let is_old = |age: &str| {
        let age = browser.run(&format!("return {age}"));
        let age = age.as_f64().expect("an age");
        assert!((3000.0..60_000.0).contains(&age), "{age}");
    };
    browser.shows("#rows", "init");
    is_old("performance.getEntriesByName('update')[0].startTime - page.received");
    browser.run("location.hash = '#/lock/init'");
    browser.shows("#facts", "expires in");
    is_old("performance.now() - page.detail.current");
    for name in ["since", "lease"] {
        let fact = || {
            browser.run(&format!(
                "return Array.from(document.querySelectorAll('#facts dt')).find((node) => node.textContent === '{name}')\
                 .nextElementSibling.textContent"
            ))
        };
        let first = fact();
        eventually("the time passes without a document", || fact() != first);
    }
    assert_eq!(browser.run("return page.updates"), 1);
}
