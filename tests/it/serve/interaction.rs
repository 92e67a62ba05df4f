//! Tests of the selection, the focus and the keys on the page, in Chromium.

use serde_json::json;

use super::Page;
use super::browser::fill;
use crate::browser::{Browser, Look};
use crate::cli_runner::{Dlock, eventually};
use crate::holder::Holder;
use crate::servers::{Flavour, shared};

/// Waits until at least two later events have arrived and the text of `selector` has changed.
#[track_caller]
fn updates(browser: &Browser, selector: &str) {
    let events = || browser.run("return page.updates").as_u64().unwrap_or(0);
    let (before, text) = (events(), browser.text(selector));
    eventually("the page shows later data", || {
        events() >= before + 2 && browser.text(selector) != text
    });
}

/// Defines functions for the scripts of these tests: `select` selects the text of a node, and `kept` says what is
/// selected and whether the node with the focus is still the same.
const FUNCTIONS: &str = "\
    window.select = (selector) => getSelection().selectAllChildren(document.querySelector(selector)); \
    window.focusOn = (selector) => { window.wanted = document.querySelector(selector); wanted.focus(); }; \
    window.kept = () => [getSelection().toString(), document.activeElement === wanted];";

#[test]
fn updates_keep_the_selection_and_the_focus() {
    let database = shared(Flavour::MariaDb).database("serve");
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let options = [
        "exec",
        "-a",
        "init",
        "--holder=web-2",
        "--note=release 42",
        "--",
        "true",
    ];
    let waiter = Dlock::on(&database, options).start();
    waiter.wait_for_output("init is held by");
    fill(&database);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    // The description of a problem in the list.
    browser.open(&page.address.url());
    browser.shows("#problems", "tenant-7");
    browser.run(FUNCTIONS);
    browser.run("select('#problem-list code'); focusOn('#problem-list a')");
    let token = 1_795_388_683_874_802_u64;
    updates(&browser, "#problems");
    let release = format!("dlock release tenant-7 --token {token}");
    assert_eq!(browser.run("return kept()"), json!([release, true]));
    browser.run("focusOn('#problem-list li:last-child button')");
    updates(&browser, "#problems");
    assert_eq!(browser.run("return kept()"), json!([release, true]));
    // The page of a lock.
    browser.run("location.hash = '#/lock/init'");
    browser.shows("#queue tbody", "web-2");
    let release = format!(
        "dlock release init --token {}",
        crate::holder::token(&database)
    );
    for (selector, text) in [
        ("#diagnosis code", release.as_str()),
        ("#facts dd:nth-of-type(3)", "web-1"),
        ("#queue td:last-child", "release 42"),
    ] {
        browser.run(&format!(
            "focusOn('#diagnosis li:last-child button'); select('{selector}')"
        ));
        updates(&browser, "#diagnosis");
        assert_eq!(
            browser.run("return kept()"),
            json!([text, true]),
            "{selector}"
        );
    }
    // The command with the focus no longer exists after the end of the run.
    browser.run("focusOn('#diagnosis button')");
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(waiter.wait().status, Some(0));
    browser.shows("#diagnosis", "free");
    assert_eq!(browser.run("return document.activeElement.id"), "name");
    // The focus follows the command line and not the position: this command was the fourth one.
    browser.run("focusOn('#diagnosis button')");
    let holder = Holder::on(&database, &[]);
    browser.shows("#diagnosis", "dlock release init");
    assert_eq!(
        browser
            .run("return [document.activeElement === wanted, wanted.getAttribute('aria-label')]"),
        json!([true, "Copy: dlock status init"])
    );
    assert_eq!(holder.end().status, Some(3));
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn copied_command_is_announced() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&format!("{}#/lock/init", page.address.url()));
    browser.shows("#diagnosis", "dlock status init");
    browser.run(
        "window.texts = []; window.button = document.querySelector('#diagnosis button'); \
         const note = () => texts.push([button.textContent, document.getElementById('announcement').textContent]); \
         new MutationObserver(note).observe(document.getElementById('announcement'), { childList: true })",
    );
    browser.clicks("#diagnosis button");
    eventually("the label is back", || {
        browser.run("return texts.length === 2 && button.isConnected && button.textContent")
            == "Copy"
    });
    let texts = browser.run("return texts");
    let label = texts[0][0].as_str().expect("a label");
    assert!(["Copied", "Selected"].contains(&label), "{texts}");
    assert_eq!(texts[0][1], format!("{label}: dlock status init"));
    assert_eq!(texts[1], json!(["Copy", ""]));
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}
