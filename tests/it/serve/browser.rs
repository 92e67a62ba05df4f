//! Tests of the page in Chromium.

use std::fs;
use std::path::Path;

use mysql::prelude::Queryable;
use testkit::browser::{Browser, Look};
use testkit::cli_runner::Dlock;
use testkit::command::{Stage, signal};
use testkit::holder::Holder;
use testkit::servers::{Database, Flavour, Server, shared};

use super::Page;

/// A name that is a script if it is used as HTML.
const HOSTILE: &str = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>";

/// Returns the selector of the cell in this column of the row of `action`. The first column is 1.
fn cell(action: &str, column: u32) -> String {
    format!("#rows tr[data-key='{action}'] > :nth-child({column})")
}

#[test]
fn page_shows_a_holder_its_waiter_and_a_take_over_without_a_reload() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("serve");
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.run("window.isSamePage = true");
    browser.shows(&cell("init", 2), "held");
    browser.shows(&cell("init", 3), "web-1");
    let stage = Stage::new();
    let go = stage.fifo("go");
    let waiter = Dlock::on(
        &database,
        ["exec", "-a", "init", "--holder", HOSTILE, "--", "cat"],
    )
    .arg(&go)
    .start();
    browser.shows(&cell("init", 6), "1");
    // The page of one action, with the keyboard.
    browser.run("document.querySelector('#rows a').focus()");
    browser.types("\u{e007}");
    browser.shows("#name", "init");
    browser.shows("#queue tbody", HOSTILE);
    browser.shows("#diagnosis", "held and renewing");
    browser.shows("#facts", "web-1");
    let token = browser.run("return document.querySelector('#diagnosis code').textContent");
    assert_eq!(
        token,
        format!(
            "dlock release init --token {}",
            testkit::holder::token(&database)
        )
    );
    assert_eq!(holder.end().status, Some(3));
    browser.shows("#facts", HOSTILE);
    browser.shows("#runs tbody", "exit 3");
    let bars = browser.run("return document.querySelectorAll('#runs .track .bad').length");
    assert_eq!(bars, 1);
    browser.types("\u{e00c}");
    browser.shows(&cell("init", 3), HOSTILE);
    testkit::command::write_message(&go, "go");
    assert_eq!(waiter.wait().status, Some(0));
    browser.shows(&cell("init", 2), "free");
    browser.shows(&cell("init", 7), "exit 0");
    let facts = browser.run("return [window.pwned === undefined, window.isSamePage, document.querySelector('main img') === null]");
    assert_eq!(facts, serde_json::json!([true, true, true]), "{flavour}");
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn stale_mark_appears_while_the_database_is_frozen() {
    let server = Server::start(Flavour::MariaDb, &[]);
    let database = server.database("serve");
    let holder = Holder::on(&database, &["--ttl=1h"]);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.shows(&cell("init", 2), "held");
    assert_eq!(browser.text("#stale"), "");
    signal(server.pid(), "STOP");
    browser.shows("#stale", "Stale: no response; this is the state of ");
    browser.shows(&cell("init", 5), "unknown");
    browser.shows("#stale", "the database does not respond");
    signal(server.pid(), "CONT");
    testkit::cli_runner::eventually("the mark goes", || browser.text("#stale").is_empty());
    browser.shows(&cell("init", 5), "59m");
    assert_eq!(holder.end().status, Some(3));
    // The server ends, and a new one has the same address.
    let url = page.address.url();
    let listen = url
        .trim_start_matches("http://")
        .trim_end_matches('/')
        .to_owned();
    assert_eq!(page.end().status, Some(0));
    browser.shows("#stale", "dlock serve does not respond");
    let page = Page::start(Dlock::on(&database, ["serve", "--listen", &listen]));
    browser.shows(&cell("init", 2), "free");
    testkit::cli_runner::eventually("the mark goes", || browser.text("#stale").is_empty());
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn details_that_do_not_arrive_are_marked_and_requested_again() {
    let database = shared(Flavour::MariaDb).database("serve");
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&format!("{}#/lock/init", page.address.url()));
    browser.shows("#facts", "web-1");
    testkit::cli_runner::eventually("the facts are current", || {
        browser.text("#detail-error").is_empty()
    });
    // The next request is never answered. It ends only if the page ends it.
    browser.run(
        "window.isSamePage = true; const real = window.fetch; let requests = 0; \
         window.fetch = (url, options) => { \
             if (!url.startsWith('action') || requests++ > 0) return real.call(window, url, options); \
             return new Promise((_, reject) => options?.signal?.addEventListener('abort', () => reject(options.signal.reason))); \
         }; \
         window.marks = []; \
         new MutationObserver(() => marks.push([element('detail-error').textContent, element('facts').textContent])) \
             .observe(element('detail-error'), { childList: true, subtree: true })",
    );
    let stage = Stage::new();
    let go = stage.fifo("go");
    let waiter = Dlock::on(
        &database,
        ["exec", "-a", "init", "--holder=web-2", "--", "cat"],
    )
    .arg(&go)
    .start();
    assert_eq!(holder.end().status, Some(3));
    browser.shows("#facts", "web-2");
    let first = browser.run("return marks[0]");
    let contains = |index: usize, text| {
        first[index]
            .as_str()
            .is_some_and(|shown| shown.contains(text))
    };
    assert!(contains(0, "The facts below are "), "{first}");
    assert!(contains(1, "web-1"), "{first}");
    testkit::cli_runner::eventually("the mark goes", || browser.text("#detail-error").is_empty());
    // A request that fails.
    browser.run(
        "window.working = window.fetch; window.fetch = (url, options) => url.startsWith('action') \
         ? Promise.reject(new TypeError('no network')) : working.call(window, url, options)",
    );
    browser.shows(
        "#detail-error",
        "dlock serve does not respond; the facts below are ",
    );
    browser.run("window.fetch = window.working");
    testkit::cli_runner::eventually("the mark goes", || browser.text("#detail-error").is_empty());
    assert_eq!(browser.run("return window.isSamePage"), true);
    testkit::command::write_message(&go, "go");
    assert_eq!(waiter.wait().status, Some(0));
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn tab_in_the_background_asks_when_the_user_looks_at_it() {
    let database = shared(Flavour::MariaDb).database("serve");
    let holder = Holder::on(&database, &["--holder=web-1"]);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    // A browser without a screen has no tabs in the background.
    browser.runs_first(
        "window.isHidden = true; Object.defineProperty(document, 'hidden', { get: () => window.isHidden })",
    );
    browser.open(&format!("{}#/lock/init", page.address.url()));
    let facts = browser
        .run("return [page.loading, performance.getEntriesByType('resource').filter(({ name }) => /json/.test(name)).length]");
    assert_eq!(facts, serde_json::json!([null, 0]));
    browser.run("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))");
    browser.shows("#facts", "web-1");
    drop(browser);
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(page.end().status, Some(0));
}

/// Fills the tables with one action for each of several states, and many free ones.
pub(super) fn fill(database: &Database) {
    let mut conn = database.admin_conn();
    let names: Vec<_> = (0..300)
        .map(|number| (format!("tenant-{number}"),))
        .collect();
    conn.exec_batch("INSERT INTO dlock_lock (action) VALUES (?)", names)
        .expect("the rows are inserted");
    conn.query_drop(
        "UPDATE dlock_lock SET owner_id=REPEAT('x',16),holder='billing-7',host='billing-7.example',pid=4711,\
         user='deploy',note='release 42',command='./close-books.sh',ttl_us=600000000,token=1795388683874802,\
         renewals=6,acquired_at=UTC_TIMESTAMP(6)-INTERVAL 25 MINUTE,\
         renewed_at=UTC_TIMESTAMP(6)-INTERVAL 280 SECOND,expires_at=UTC_TIMESTAMP(6)+INTERVAL 320 SECOND \
         WHERE action='tenant-7'",
    )
    .expect("the row is changed");
}

#[test]
fn list_is_searched_sorted_and_filtered() {
    let database = shared(Flavour::MariaDb).database("serve");
    let holder = Holder::on(&database, &[]);
    fill(&database);
    let page = Page::on(&database, &[]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.shows("#summary", "301 locks, the first 200 are shown");
    let names = |count: u32| {
        browser.run(&format!(
            "return Array.from(document.querySelectorAll('#rows tr'), (row) => row.dataset.key).slice(0, {count})"
        ))
    };
    // The lock with a problem comes first.
    assert_eq!(
        names(3),
        serde_json::json!(["tenant-7", "init", "tenant-0"])
    );
    browser.shows("#problems", "the holder is frozen or cut off");
    browser.shows("#problems code", "dlock ");
    assert!(
        browser
            .run("return document.title")
            .as_str()
            .is_some_and(|title| title.starts_with("(1) "))
    );
    browser.clicks("#more");
    browser.shows("#summary", "301 locks");
    assert_eq!(
        browser.run("return document.querySelectorAll('#rows tr').length"),
        301
    );
    // The key / selects the search.
    browser.run("document.body.focus()");
    browser.types("/");
    browser.types("TENANT-29");
    browser.shows("#summary", "11 of 301 locks");
    assert_eq!(
        names(3),
        serde_json::json!(["tenant-29", "tenant-290", "tenant-291"])
    );
    let choose = |id: &str, value: &str| {
        browser.run(&format!(
            "const node = document.getElementById('{id}'); node.value = '{value}'; node.dispatchEvent(new Event('change'))"
        ));
    };
    browser.run("const node = document.getElementById('search'); node.value = ''; node.dispatchEvent(new Event('input'))");
    choose("order", "name");
    // Natural order: 9 before 10.
    assert_eq!(
        names(12).as_array().map(|names| names[10..].to_vec()),
        Some(vec!["tenant-9".into(), "tenant-10".into()])
    );
    // A new action appears at its place, and a deleted one disappears.
    let mut conn = database.admin_conn();
    conn.query_drop("INSERT INTO dlock_lock (action) VALUES ('tenant-9b')")
        .expect("the row is inserted");
    conn.query_drop("DELETE FROM dlock_lock WHERE action='tenant-8'")
        .expect("the row is deleted");
    browser.shows("#summary", "301 locks, the first 200 are shown");
    testkit::cli_runner::eventually("the new action is shown", || {
        let shown = names(11);
        [&shown[9], &shown[10]] == ["tenant-9", "tenant-9b"]
    });
    choose("state", "held");
    assert_eq!(names(9), serde_json::json!(["init", "tenant-7"]));
    choose("order", "held");
    assert_eq!(names(9), serde_json::json!(["tenant-7", "init"]));
    choose("state", "attention");
    assert_eq!(names(9), serde_json::json!(["tenant-7"]));
    // The page describes three problems, and says that there are more.
    choose("state", "all");
    assert_eq!(browser.text("#more-problems"), "");
    conn.query_drop(
        "UPDATE dlock_lock SET owner_id=REPEAT('x',16),ttl_us=600000000,acquired_at=UTC_TIMESTAMP(6)-INTERVAL 1 HOUR,\
         renewed_at=UTC_TIMESTAMP(6)-INTERVAL 280 SECOND,expires_at=UTC_TIMESTAMP(6)+INTERVAL 320 SECOND \
         WHERE action IN ('tenant-10', 'tenant-11', 'tenant-12', 'tenant-13')",
    )
    .expect("the rows are changed");
    browser.shows("#more-problems", "and 2 more");
    assert_eq!(
        browser.run("return document.querySelectorAll('#problem-list article').length"),
        3
    );
    browser.clicks("#more-problems");
    browser.shows("#summary", "5 of 301 locks");
    assert_eq!(browser.run("return document.activeElement.id"), "locks");
    drop(browser);
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(page.end().status, Some(0));
}

/// Returns the nodes that a user may not see or that a screen reader may not explain: visible texts with a contrast below
/// 4.5, also if the page is stale, bars with a contrast below 3, bars of failed runs without a pattern, and parts of
/// tables without a role.
const INACCESSIBLE: &str = "
    const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
    const style = (node) => getComputedStyle(node);
    const channel = (value) => value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4;
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b) + 0.05;
    const contrast = (one, other) => Math.max(light(one) / light(other), light(other) / light(one));
    const back = (node) => {
        const colour = rgb(style(node).backgroundColor);
        return colour.length === 3 || colour[3] > 0 ? colour : back(node.parentElement);
    };
    const opacity = (node) => node ? Number(style(node).opacity) * opacity(node.parentElement) : 1;
    const found = [];
    document.body.classList.add('is-stale');
    for (const node of document.querySelectorAll('body *')) {
        const hasText = Array.from(node.childNodes).some((child) => child.nodeType === 3 && child.data.trim());
        if (!hasText || !node.checkVisibility() || ['OPTION', 'SELECT', 'NOSCRIPT'].includes(node.tagName)) continue;
        const [behind, part] = [back(node), opacity(node)];
        const colour = rgb(style(node).color).slice(0, 3).map((value, index) => part * value + (1 - part) * behind[index]);
        if (contrast(colour, behind) < 4.5) found.push(`text ${node.className} ${node.textContent}`);
    }
    document.body.classList.remove('is-stale');
    for (const bar of document.querySelectorAll('.bar')) {
        const isBad = bar.classList.contains('bad');
        const colour = rgb(isBad ? style(bar).borderLeftColor : style(bar).backgroundColor);
        if (contrast(colour, back(bar.parentElement)) < 3) found.push(`contrast of ${bar.className}`);
        if (isBad !== (style(bar).backgroundImage !== 'none')) found.push(`pattern of ${bar.className}`);
    }
    for (const part of document.querySelectorAll('table, thead, tbody, tr, th, td')) {
        if (!part.hasAttribute('role')) found.push(`role of ${part.tagName}`);
    }
    for (const row of document.querySelectorAll('#rows tr')) {
        if (row.cells[0].scope !== 'row') found.push('scope');
    }
    if (!document.querySelector('#detail-error[role=alert]')) found.push('role of the error');
    return Array.from(new Set(found));";

/// Writes an image of each view. The README shows one of them.
#[test]
fn page_fits_a_computer_and_a_phone_in_light_and_dark_colours() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let holder = Holder::on(&database, &[]);
    let waiter = Dlock::on(&database, ["exec", "-a", "init", "--", "true"]).start();
    waiter.wait_for_output("init is held by");
    fill(&database);
    let stuck = ["billing-8", "billing-9"].map(|name| {
        let options = ["exec", "-a", "tenant-7", "--holder", name, "--", "true"];
        let waiter = Dlock::on(&database, options).start();
        waiter.wait_for_output("tenant-7 is held by");
        waiter
    });
    let page = Page::on(&database, &[]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).expect("the folder is created");
    let browser = Browser::start(Look::WIDE);
    for (width, height) in [(1280, 900), (390, 844)] {
        for is_dark in [false, true] {
            browser.looks(Look {
                width,
                height,
                is_dark,
            });
            let dark = browser.run("return matchMedia('(prefers-color-scheme: dark)').matches");
            assert_eq!(dark, is_dark);
            for (name, path, visible) in [
                ("list", "", "#rows"),
                ("stuck", "#/lock/tenant-7", "#diagnosis"),
                ("held", "#/lock/init", "#runs tbody"),
            ] {
                browser.open("about:blank");
                browser.open(&format!("{}{path}", page.address.url()));
                browser.shows(
                    visible,
                    match name {
                        "list" => "tenant-7",
                        "stuck" => "dlock release",
                        _ => "exit 3",
                    },
                );
                let look = if is_dark { "dark" } else { "light" };
                let file = folder.join(format!("{name}-{width}-{look}.png"));
                fs::write(file, browser.screenshot()).expect("the image is written");
                let sizes = browser.run(
                    "const node = document.documentElement; return [innerWidth, node.scrollWidth, getComputedStyle(document.body).backgroundColor]",
                );
                assert_eq!(sizes[0], width, "{name}");
                assert_eq!(sizes[1], width, "{name} is wider than the window");
                let back = if is_dark {
                    "rgb(20, 23, 26)"
                } else {
                    "rgb(255, 255, 255)"
                };
                assert_eq!(sizes[2], back);
                // Each control has a name for screen readers, and each table has headings.
                let unnamed = browser.run(
                    "return Array.from(document.querySelectorAll('input, select, button, a')).filter((node) => \
                     node.offsetParent && !(node.labels && node.labels.length) && !node.getAttribute('aria-label') && !node.textContent.trim()).length",
                );
                assert_eq!(unnamed, 0, "{name}");
                assert_eq!(
                    browser.run(INACCESSIBLE),
                    serde_json::json!([]),
                    "{name} {look}"
                );
            }
        }
    }
    assert_eq!(holder.end().status, Some(3));
    assert_eq!(waiter.wait().status, Some(0));
    for waiter in stuck {
        waiter.signal("TERM");
        assert_eq!(waiter.wait().status, Some(143));
    }
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn page_says_why_its_requests_are_refused() {
    let database = shared(Flavour::MariaDb).database("serve");
    Holder::on(&database, &[]).end();
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.shows("#rows", "init");
    for (kind, text) in [
        ("text/html", "a proxy before it, refuses the connection"),
        ("text/plain", "the token is missing or wrong"),
    ] {
        browser.run(&format!(
            "window.real ??= window.fetch; window.fetch = async () => new Response('the token is missing or wrong', \
             {{ status: 401, headers: {{ 'Content-Type': '{kind}' }} }})"
        ));
        browser.shows("#stale", text);
    }
    browser.run("window.fetch = window.real");
    testkit::cli_runner::eventually("the mark goes", || browser.text("#stale").is_empty());
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}

#[test]
fn page_shows_the_take_over_from_a_killed_holder_without_a_reload() {
    let flavour = Flavour::of_this_test();
    let database = shared(flavour).database("serve");
    let holder = Holder::on(&database, &["--holder=web-1", "--ttl=5s"]);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = Browser::start(Look::WIDE);
    browser.open(&page.address.url());
    browser.run("window.isSamePage = true");
    browser.shows(&cell("init", 3), "web-1");
    let token = testkit::holder::token(&database);
    let stage = Stage::new();
    let go = stage.fifo("go");
    let waiter = Dlock::on(
        &database,
        ["exec", "-a", "init", "--holder=web-2", "--", "cat"],
    )
    .arg(&go)
    .start();
    browser.shows(&cell("init", 6), "1");
    holder.running.crash();
    // The page says what happens before it happens, and describes the lock above the list.
    browser.shows(&cell("init", 2), "holder gone");
    browser.shows(
        "#problem-list",
        "dlock normally kills the command before then",
    );
    browser.shows(&cell("init", 3), "web-2");
    browser.shows(&cell("init", 2), "held");
    testkit::cli_runner::eventually("no lock needs attention", || {
        browser.run("return document.getElementById('problems').hidden") == true
    });
    assert!(testkit::holder::token(&database) > token, "{flavour}");
    testkit::command::write_message(&go, "go");
    assert_eq!(waiter.wait().status, Some(0));
    browser.shows(&cell("init", 2), "free");
    assert_eq!(browser.run("return window.isSamePage"), true, "{flavour}");
    drop(browser);
    assert_eq!(page.end().status, Some(0));
}
