//! Tests of the selection, the focus and the keys on the page, in Chromium.

use mysql::prelude::Queryable;
use serde_json::json;
use testkit::browser::Browser;
use testkit::cli_runner::{Dlock, eventually};
use testkit::holder::{Holder, token};
use testkit::servers::Flavour;

use super::{Page, create_tenants, database};

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
    let database = database(Flavour::of_this_test());
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let waiter = ["exec", "-a", "init", "--holder=web-2", "--note=release 42"];
    let waiter = Dlock::on(&database, waiter).args(["--", "true"]).start();
    waiter.wait_for_output("init is held by");
    let token = token(&database);
    create_tenants(&database);
    let page = Page::on(&database, &["--interval=200ms"]);
    // The description of a problem in the list.
    let browser = page.view("");
    browser.shows("#problems", "tenant-7");
    browser.run(FUNCTIONS);
    browser.run("select('#problem-list code'); focusOn('#problem-list a')");
    updates(&browser, "#problems");
    let release = "dlock release tenant-7 --token 1795388683874802";
    assert_eq!(browser.run("return kept()"), json!([release, true]));
    browser.run("focusOn('#problem-list li:last-child button')");
    updates(&browser, "#problems");
    assert_eq!(browser.run("return kept()"), json!([release, true]));
    // The page of a lock. A request between the change of the address and its event is harmless.
    let outcome = browser.run(
        "location.hash = '#/lock/init'; return loadDetail().then(() => 'done', (error) => String(error))",
    );
    assert_eq!(outcome, "done");
    browser.shows("#queue tbody", "web-2");
    let release = format!("dlock release init --token {token}");
    for (selector, text) in [
        ("#diagnosis code", release.as_str()),
        ("#facts div:nth-child(3) dd", "web-1"),
        ("#queue td:last-child", "release 42"),
    ] {
        browser.run(&format!(
            "focusOn('#diagnosis li:last-child button'); select('{selector}')"
        ));
        updates(&browser, "#diagnosis");
        let kept = browser.run("return kept()");
        assert_eq!(kept, json!([text, true]), "{selector}");
    }
    // The command with the focus no longer exists after the end of the run.
    browser.run("focusOn('#diagnosis button')");
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(waiter.wait().status, Some(0));
    browser.shows("#diagnosis code", "dlock status init");
    assert_eq!(browser.run("return document.activeElement.id"), "name");
    // The focus follows the command line and not the position: this command was the fourth one.
    browser.run("focusOn('#diagnosis button')");
    let _holder = Holder::on(&database, &[]);
    browser.shows("#diagnosis", "dlock release init");
    let focus = browser
        .run("return [document.activeElement === wanted, wanted.getAttribute('aria-label')]");
    assert_eq!(focus, json!([true, "Copy: dlock status init"]));
}

pub(super) const ENTER: &str = "\u{e007}";

pub(super) const ESCAPE: &str = "\u{e00c}";

#[test]
fn keys_open_a_lock_copy_a_command_and_return_to_the_place_in_the_list() {
    let database = database(Flavour::of_this_test());
    create_tenants(&database);
    let page = Page::on(&database, &[]);
    let browser = page.view("");
    browser.shows("#rows", "tenant-5");
    browser.run(FUNCTIONS);
    browser.run("focusOn(\"#rows tr[data-key='tenant-5'] a\")");
    let becomes = |what: &str, script: &str, value: serde_json::Value| {
        eventually(what, || browser.run(&format!("return {script}")) == value);
    };
    let returns = |what: &str| {
        let script = "[element('detail').hidden, document.activeElement === wanted]";
        becomes(what, script, json!([true, true]));
    };
    browser.types(ENTER).shows("#name", "tenant-5");
    browser.types(ESCAPE);
    returns("Esc returns to the link");
    browser.types(ENTER).shows("#name", "tenant-5");
    browser.clicks("#detail a");
    returns("All locks returns to the link");
    browser.types(ENTER);
    // The hidden part still contains the text of the previous visit.
    let hidden = "[element('detail').hidden, element('detail-body').hidden]";
    becomes("the lock is shown", hidden, json!([false, false]));
    // Another address of the same lock changes nothing.
    browser.run(
        "focusOn('#diagnosis button'); window.changes = 0; window.addEventListener('hashchange', () => changes++); \
         location.hash = '#/lock/tenant%2D5'",
    );
    becomes("the address has changed", "changes", json!(1));
    let state = "return [document.activeElement === wanted, element('detail-body').hidden]";
    assert_eq!(browser.run(state), json!([true, false]));
    // A copied command is announced.
    browser.run(
        "window.texts = []; \
         const note = () => texts.push([wanted.textContent, element('announcement').textContent]); \
         new MutationObserver(note).observe(element('announcement'), { childList: true })",
    );
    browser.clicks("#diagnosis button");
    let label = "texts.length === 2 && wanted.isConnected && wanted.textContent";
    becomes("the label is back", label, json!("Copy"));
    let texts = browser.run("return texts");
    let label = texts[0][0].as_str().expect("a label");
    assert!(["Copied", "Selected"].contains(&label), "{texts}");
    assert_eq!(texts[0][1], format!("{label}: dlock status tenant-5"));
    assert_eq!(texts[1], json!(["Copy", ""]));
    // The key / opens the list and selects the search, and the later event does not move the focus.
    browser.types("/").types("TENANT-29");
    becomes("the address has changed", "changes", json!(2));
    browser.types("9").shows("#summary", "1 of 301 locks");
    let search = browser.run("return [document.activeElement.id, document.activeElement.value]");
    assert_eq!(search, json!(["search", "TENANT-299"]));
    // The filter does not show the row of this lock.
    browser.run("location.hash = '#/lock/tenant-5'");
    browser.shows("#diagnosis", "dlock status").types(ESCAPE);
    let focus = "document.activeElement.id";
    becomes("the list has the focus", focus, json!("locks"));
}

#[test]
fn focus_stays_when_rows_move_and_disappear() {
    let database = database(Flavour::of_this_test());
    create_tenants(&database);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = page.view("");
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
    database.run("DELETE FROM dlock_lock WHERE action IN ('tenant-6', 'tenant-8')");
    eventually("the rows disappear", || {
        [index("tenant-6"), index("tenant-8")] == [-1, -1]
    });
    assert_eq!(browser.run("return kept()"), json!(["tenant-9", true]));
    database.run("UPDATE dlock_lock SET owner_id=REPEAT('x',16),holder='web-9',ttl_us=600000000,acquired_at=UTC_TIMESTAMP(6),\
         renewed_at=UTC_TIMESTAMP(6),expires_at=UTC_TIMESTAMP(6)+INTERVAL 600 SECOND WHERE action='tenant-9'");
    eventually("the row moves", || index("tenant-9") < 3);
    let moved = "return [wanted.closest('tr').rowIndex < 4, document.activeElement === wanted]";
    assert_eq!(browser.run(moved), json!([true, true]));
    browser.run("window.scrollTo(0, 200)");
    database.run("DELETE FROM dlock_lock WHERE action='tenant-9'");
    eventually("the row disappears", || index("tenant-9") == -1);
    let place = browser.run("return [document.activeElement.id, Math.abs(scrollY - 200) < 100]");
    assert_eq!(place, json!(["locks", true]));
}

#[test]
fn name_of_a_lock_is_never_html_or_a_command() {
    const NAME: &str = "'\"><img src=x onerror=window.pwned=1><script>window.pwned=1</script>$(x)`x`\u{202e}%2F#?&";
    let database = database(Flavour::of_this_test());
    let insert = "INSERT INTO dlock_lock \
         (action,owner_id,holder,host,user,note,command,token,ttl_us,acquired_at,renewed_at,expires_at) \
         VALUES (?,REPEAT('x',16),?,?,?,?,?,7,600000000,UTC_TIMESTAMP(6)-INTERVAL 1 HOUR,\
         UTC_TIMESTAMP(6)-INTERVAL 280 SECOND,UTC_TIMESTAMP(6)+INTERVAL 320 SECOND)";
    let mut conn = database.admin_conn();
    conn.exec_drop(insert, (NAME, NAME, NAME, "u", NAME, NAME))
        .expect("the row is inserted");
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = page.view("");
    browser.shows("#problem-list", "dlock release");
    let texts = browser.run(
        "return ['#problem-list h3 a', '#rows a', '#rows td:nth-child(3)'].map((selector) => document.querySelector(selector).textContent)",
    );
    assert_eq!(texts, json!([NAME, NAME, NAME]));
    // The link leads to the lock, and the command line is one word for the shell.
    browser.clicks("#problem-list h3 a");
    browser.shows("#facts", "x onerror");
    let word = NAME.replace('\'', r"'\''");
    let release = format!("dlock release '{word}' --token 7");
    let shown = browser.run(
        "return [element('name-text').textContent, document.querySelector('#diagnosis code').textContent, \
         window.pwned === undefined, document.querySelectorAll('main img, main script').length]",
    );
    assert_eq!(shown, json!([NAME, release, true, 0]));
}
