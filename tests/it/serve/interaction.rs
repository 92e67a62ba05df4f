//! Tests of the selection, the focus and the keys on the page, in Chromium.

use mysql::prelude::Queryable;
use serde_json::json;
use testkit::browser::{Browser, Look};
use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::Holder;
use testkit::servers::{Flavour, shared};

use super::Page;
use super::browser::fill;

/// Waits until at least two later overviews have arrived and the text of `selector` has changed.
#[track_caller]
fn updates(browser: &Browser, selector: &str) {
    let updates = || browser.run("return page.updates").as_u64().unwrap_or(0);
    let (before, text) = (updates(), browser.text(selector));
    eventually("the page shows later data", || {
        updates() >= before + 2 && browser.text(selector) != text
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
        testkit::holder::token(&database)
    );
    for (selector, text) in [
        ("#diagnosis code", release.as_str()),
        ("#facts div:nth-child(3) dd", "web-1"),
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
    browser.shows("#diagnosis code", "dlock status init");
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

/// The key Enter.
const ENTER: &str = "\u{e007}";

/// The key Esc.
const ESCAPE: &str = "\u{e00c}";

#[test]
fn keys_open_a_lock_and_return_to_its_place_in_the_list() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    fill(&database);
    let page = Page::on(&database, &[]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.shows("#rows", "tenant-5");
    browser.run(FUNCTIONS);
    browser.run("focusOn(\"#rows tr[data-key='tenant-5'] a\")");
    let has_returned = || {
        browser.run(
            "return [document.getElementById('detail').hidden, document.activeElement === wanted]",
        ) == json!([true, true])
    };
    browser.types(ENTER);
    browser.shows("#name", "tenant-5");
    browser.types(ESCAPE);
    eventually("Esc returns to the link", has_returned);
    browser.types(ENTER);
    browser.shows("#name", "tenant-5");
    browser.clicks("#detail a");
    eventually("All locks returns to the link", has_returned);
    // Another address of the same lock changes nothing.
    browser.types(ENTER);
    // The hidden part still contains the text of the previous visit.
    eventually("the lock is shown", || {
        let parts = "return [element('detail').hidden, element('detail-body').hidden]";
        browser.run(parts) == json!([false, false])
    });
    browser.run(
        "focusOn('#diagnosis button'); window.changes = 0; window.addEventListener('hashchange', () => changes++); \
         location.hash = '#/lock/tenant%2D5'",
    );
    eventually("the address has changed", || {
        browser.run("return changes") == 1
    });
    let state =
        browser.run("return [document.activeElement === wanted, element('detail-body').hidden]");
    assert_eq!(state, json!([true, false]));
    // The key / opens the list and selects the search, and the later event does not move the focus.
    browser.types("/");
    browser.types("TENANT-29");
    eventually("the address has changed", || {
        browser.run("return changes") == 2
    });
    browser.types("9");
    browser.shows("#summary", "1 of 301 locks");
    assert_eq!(
        browser.run("return [document.activeElement.id, document.activeElement.value]"),
        json!(["search", "TENANT-299"])
    );
    // The filter does not show the row of this lock.
    browser.run("location.hash = '#/lock/tenant-5'");
    browser.shows("#diagnosis", "dlock status");
    browser.types(ESCAPE);
    eventually("the list has the focus", || {
        browser.run("return document.activeElement.id") == "locks"
    });
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn focus_stays_when_rows_move_and_disappear() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    fill(&database);
    let mut conn = database.admin_conn();
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.shows("#rows", "tenant-9");
    browser.run(FUNCTIONS);
    let index = |action: &str| {
        let script = format!(
            "return Array.from(document.querySelectorAll('#rows tr'), (row) => row.dataset.key).indexOf('{action}')"
        );
        browser.run(&script).as_i64().expect("a number")
    };
    // Two rows above disappear.
    browser.run(
        "focusOn(\"#rows tr[data-key='tenant-9'] a\"); select(\"#rows tr[data-key='tenant-9'] a\")",
    );
    conn.query_drop("DELETE FROM dlock_lock WHERE action IN ('tenant-6', 'tenant-8')")
        .expect("the rows are deleted");
    eventually("the rows disappear", || {
        [index("tenant-6"), index("tenant-8")] == [-1, -1]
    });
    assert_eq!(browser.run("return kept()"), json!(["tenant-9", true]));
    // The row moves.
    conn.query_drop(
        "UPDATE dlock_lock SET owner_id=REPEAT('x',16),holder='web-9',ttl_us=600000000,acquired_at=UTC_TIMESTAMP(6),\
         renewed_at=UTC_TIMESTAMP(6),expires_at=UTC_TIMESTAMP(6)+INTERVAL 600 SECOND WHERE action='tenant-9'",
    )
    .expect("the row is changed");
    eventually("the row moves", || index("tenant-9") < 3);
    let moved = "return [wanted.closest('tr').rowIndex < 4, document.activeElement === wanted]";
    assert_eq!(browser.run(moved), json!([true, true]));
    // The row disappears.
    browser.run("window.scrollTo(0, 200)");
    conn.query_drop("DELETE FROM dlock_lock WHERE action='tenant-9'")
        .expect("the row is deleted");
    eventually("the row disappears", || index("tenant-9") == -1);
    let place = browser.run("return [document.activeElement.id, Math.abs(scrollY - 200) < 100]");
    assert_eq!(place, json!(["locks", true]));
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn event_between_a_change_of_the_address_and_its_event_is_harmless() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.shows("#rows", "init");
    let outcome = browser.run(
        "location.hash = '#/lock/init'; return loadDetail().then(() => 'done', (error) => String(error))",
    );
    assert_eq!(outcome, "done");
    browser.shows("#diagnosis", "dlock status init");
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn name_of_a_lock_is_never_html_or_a_command() {
    const NAME: &str = "'\"><img src=x onerror=window.pwned=1><script>window.pwned=1</script>$(x)`x`\u{202e}%2F#?&";
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let mut conn = database.admin_conn();
    conn.exec_drop(
        "INSERT INTO dlock_lock (action,owner_id,holder,host,user,note,command,token,ttl_us,acquired_at,renewed_at,expires_at) \
         VALUES (?,REPEAT('x',16),?,?,?,?,?,7,600000000,UTC_TIMESTAMP(6)-INTERVAL 1 HOUR,\
         UTC_TIMESTAMP(6)-INTERVAL 280 SECOND,UTC_TIMESTAMP(6)+INTERVAL 320 SECOND)",
        (NAME, NAME, NAME, "u", NAME, NAME),
    )
    .expect("the row is inserted");
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.shows("#problem-list", "dlock release");
    let texts = browser.run(
        "return ['#problem-list h3 a', '#rows a', '#rows td:nth-child(3)'].map((selector) => document.querySelector(selector).textContent)",
    );
    assert_eq!(texts, json!([NAME, NAME, NAME]));
    // The link leads to the lock, and the command line is one word for the shell.
    browser.clicks("#problem-list h3 a");
    browser.shows("#facts", "x onerror");
    assert_eq!(
        browser.run("return document.getElementById('name-text').textContent"),
        NAME
    );
    let line = browser.run("return document.querySelector('#diagnosis code').textContent");
    let word = NAME.replace('\'', r"'\''");
    assert_eq!(line, format!("dlock release '{word}' --token 7"));
    let harm = browser.run("return [window.pwned === undefined, document.querySelectorAll('main img, main script').length]");
    assert_eq!(harm, json!([true, 0]));
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}
