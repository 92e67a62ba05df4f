//! Tests of the page in Chromium.

use std::fs;
use std::path::Path;

use serde_json::json;
use testkit::browser::{Browser, Look};
use testkit::cli_runner::{Dlock, eventually};
use testkit::command::{Stage, write_message};
use testkit::holder::{Holder, token};
use testkit::proxy::{Flow, Proxy};
use testkit::servers::Flavour;

use super::interaction::{ENTER, ESCAPE};
use super::{Page, create_tenants, database};

/// A name that is a script if it is used as HTML.
const HOSTILE: &str = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>";

/// Returns the selector of the cell in this column of the row of `init`. The first column is 1.
fn cell(column: u32) -> String {
    format!("#rows tr[data-key='init'] > :nth-child({column})")
}

/// Waits until the element that `selector` selects, a mark of old data, has no text.
#[track_caller]
fn is_current(browser: &Browser, selector: &str) {
    eventually("the mark goes", || browser.text(selector).is_empty());
}

#[test]
fn page_shows_a_waiter_and_its_take_over_from_a_killed_holder_without_a_reload() {
    let database = database(Flavour::of_this_test());
    let holder = Holder::on(&database, &["--holder=web-1", "--ttl=10s"]);
    let page = Page::on(&database, &["--interval=200ms"]);
    let browser = page.view("");
    browser.run("window.isSamePage = true");
    browser.shows(&cell(2), "held").shows(&cell(3), "web-1");
    let stage = Stage::new();
    let go = stage.fifo("go");
    let waiter = ["exec", "-a", "init", "--holder", HOSTILE, "--", "cat"];
    let waiter = Dlock::on(&database, waiter).arg(&go).start();
    browser.shows(&cell(6), "1");
    // The page of the lock, with the keyboard.
    browser.run("document.querySelector('#rows a').focus()");
    browser.types(ENTER).shows("#name", "init");
    browser.shows("#queue tbody", HOSTILE);
    browser.shows("#diagnosis", "held and renewing");
    browser.shows("#facts", "web-1");
    browser.shows("#runs tbody", "exit 3");
    let token = || token(&database);
    let before = token();
    let shown = browser.run(
        "return [document.querySelector('#diagnosis code').textContent, \
         document.querySelectorAll('#runs .track .bad').length]",
    );
    let release = format!("dlock release init --token {before}");
    assert_eq!(shown, json!([release, 1]));
    browser.types(ESCAPE);
    holder.running.crash();
    // The page says what happens before it happens, and describes the lock above the list.
    browser.shows(&cell(2), "holder gone");
    let advice = "dlock normally kills the command before then";
    browser.shows("#problem-list", advice);
    browser.shows(&cell(3), HOSTILE);
    browser.shows(&cell(2), "held");
    eventually("no lock needs attention", || {
        browser.run("return document.getElementById('problems').hidden") == true
    });
    assert!(token() > before);
    write_message(&go, "go");
    assert_eq!(waiter.wait().status, Some(0));
    browser.shows(&cell(2), "free").shows(&cell(7), "exit 0");
    let facts = "return [window.pwned === undefined, window.isSamePage, document.querySelector('main img') === null]";
    assert_eq!(browser.run(facts), json!([true, true, true]));
}

#[test]
fn stale_mark_says_why_the_page_has_no_later_state() {
    let database = database(Flavour::of_this_test());
    let holder = Holder::on(&database, &["--ttl=1h"]);
    let proxy = Proxy::to(database.port);
    let page = Page::on(&database.through(proxy.port()), &["--interval=200ms"]);
    let browser = page.view("");
    browser.shows(&cell(2), "held");
    assert_eq!(browser.text("#stale"), "");
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
    is_current(&browser, "#stale");
    proxy.responses(Flow::Hold);
    browser.shows("#stale", "Stale: no response; this is the state of ");
    browser.shows(&cell(5), "unknown");
    browser.shows("#stale", "the database does not respond");
    proxy.responses(Flow::Pass);
    is_current(&browser, "#stale");
    browser.shows(&cell(5), "59m");
    assert_eq!(holder.end().status, Some(3));
    // The server ends, and a new one has the same address.
    let url = page.address.url();
    let listen = url.trim_start_matches("http://").trim_end_matches('/');
    assert_eq!(page.end().status, Some(0));
    browser.shows("#stale", "dlock serve does not respond");
    let _page = Page::start(Dlock::on(&database, ["serve", "--listen", listen]));
    browser.shows(&cell(2), "free");
    is_current(&browser, "#stale");
}

#[test]
fn details_are_requested_when_the_user_looks_and_again_if_they_do_not_arrive() {
    let database = database(Flavour::of_this_test());
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
    assert_eq!(facts, json!([null, 0]));
    browser.run("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))");
    browser.shows("#facts", "web-1");
    is_current(&browser, "#detail-error");
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
    let _waiter = Dlock::typed(&database, "exec -a init --holder=web-2 -- sleep 600").start();
    assert_eq!(holder.end().status, Some(3));
    browser.shows("#facts", "web-2");
    let first = browser.run("return marks[0]");
    for (shown, text) in [(0, "The facts below are "), (1, "web-1")] {
        let shown = first[shown].as_str();
        assert!(shown.is_some_and(|shown| shown.contains(text)), "{first}");
    }
    is_current(&browser, "#detail-error");
    // A request that fails.
    browser.run(
        "window.working = window.fetch; window.fetch = (url, options) => url.startsWith('action') \
         ? Promise.reject(new TypeError('no network')) : working.call(window, url, options)",
    );
    let mark = "dlock serve does not respond; the facts below are ";
    browser.shows("#detail-error", mark);
    browser.run("window.fetch = window.working");
    is_current(&browser, "#detail-error");
    assert_eq!(browser.run("return window.isSamePage"), true);
}

#[test]
fn list_is_searched_sorted_and_filtered() {
    let database = database(Flavour::of_this_test());
    let _holder = Holder::on(&database, &[]);
    create_tenants(&database);
    let page = Page::on(&database, &[]);
    let browser = page.view("");
    browser.shows("#summary", "301 locks, the first 200 are shown");
    let names = |count: u32| {
        browser.run(&format!(
            "return Array.from(document.querySelectorAll('#rows tr'), (row) => row.dataset.key).slice(0, {count})"
        ))
    };
    let number = |selector: &str| {
        browser.run(&format!(
            "return document.querySelectorAll('{selector}').length"
        ))
    };
    // The lock with a problem comes first.
    assert_eq!(names(3), json!(["tenant-7", "init", "tenant-0"]));
    browser.shows("#problems", "the holder is frozen or cut off");
    browser.shows("#problems code", "dlock ");
    let title = browser.run("return document.title.slice(0, 4)");
    assert_eq!(title, "(1) ");
    browser.clicks("#more").shows("#summary", "301 locks");
    assert_eq!(number("#rows tr"), 301);
    // The key / selects the search.
    browser.run("document.body.focus()");
    browser.types("/").types("TENANT-29");
    browser.shows("#summary", "11 of 301 locks");
    assert_eq!(names(3), json!(["tenant-29", "tenant-290", "tenant-291"]));
    let choose = |id: &str, value: &str, event: &str| {
        browser.run(&format!(
            "const node = document.getElementById('{id}'); node.value = '{value}'; node.dispatchEvent(new Event('{event}'))"
        ));
    };
    choose("search", "", "input");
    choose("order", "name", "change");
    // Natural order: 9 before 10.
    let shown = names(12);
    assert_eq!([&shown[10], &shown[11]], ["tenant-9", "tenant-10"]);
    // A new action appears at its place, and a deleted one disappears.
    database.run("UPDATE dlock_lock SET action='tenant-9b' WHERE action='tenant-8'");
    browser.shows("#summary", "301 locks, the first 200 are shown");
    eventually("the new action is shown", || {
        let shown = names(11);
        [&shown[9], &shown[10]] == ["tenant-9", "tenant-9b"]
    });
    choose("state", "held", "change");
    assert_eq!(names(9), json!(["init", "tenant-7"]));
    choose("order", "held", "change");
    assert_eq!(names(9), json!(["tenant-7", "init"]));
    choose("state", "attention", "change");
    assert_eq!(names(9), json!(["tenant-7"]));
    // The page describes three problems, and says that there are more.
    choose("state", "all", "change");
    assert_eq!(browser.text("#more-problems"), "");
    database.run("UPDATE dlock_lock SET owner_id=REPEAT('x',16),ttl_us=600000000,acquired_at=UTC_TIMESTAMP(6)-INTERVAL 1 HOUR,\
         renewed_at=UTC_TIMESTAMP(6)-INTERVAL 280 SECOND,expires_at=UTC_TIMESTAMP(6)+INTERVAL 320 SECOND \
         WHERE action IN ('tenant-10', 'tenant-11', 'tenant-12', 'tenant-13')");
    browser.shows("#more-problems", "and 2 more");
    assert_eq!(number("#problem-list article"), 3);
    browser.clicks("#more-problems");
    browser.shows("#summary", "5 of 301 locks");
    assert_eq!(browser.run("return document.activeElement.id"), "locks");
}
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
    let database = database(Flavour::of_this_test());
    let _holder = Holder::on(&database, &[]);
    create_tenants(&database);
    let waiters = [
        ("init", "billing-6"),
        ("tenant-7", "billing-8"),
        ("tenant-7", "billing-9"),
    ];
    let _waiters = waiters.map(|(action, name)| {
        let options = ["exec", "-a", action, "--holder", name, "--", "true"];
        Dlock::on(&database, options).start_until(" is held by")
    });
    let page = Page::on(&database, &[]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    fs::create_dir_all(&folder).expect("the folder is created");
    let browser = Browser::start(Look::WIDE);
    let windows = [(1280, 900), (390, 844)];
    let colours = [
        (false, "light", "rgb(255, 255, 255)"),
        (true, "dark", "rgb(20, 23, 26)"),
    ];
    let views = [
        ("list", "", "#rows", "tenant-7"),
        ("stuck", "#/lock/tenant-7", "#diagnosis", "dlock release"),
        ("held", "#/lock/init", "#runs tbody", "exit 3"),
    ];
    let looks = windows.map(|window| colours.map(|colour| (window, colour)));
    for ((width, height), (is_dark, look, back)) in looks.into_iter().flatten() {
        browser.looks(Look {
            width,
            height,
            is_dark,
        });
        for (name, path, selector, text) in views {
            browser.open("about:blank");
            browser.open(&format!("{}{path}", page.address.url()));
            browser.shows(selector, text);
            let file = folder.join(format!("{name}-{width}-{look}.png"));
            fs::write(file, browser.screenshot()).expect("the image is written");
            let facts = browser.run(
                "return [matchMedia('(prefers-color-scheme: dark)').matches, innerWidth, \
                 document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]",
            );
            // A page that is wider than the window would scroll.
            assert_eq!(facts, json!([is_dark, width, width, back]), "{name}");
            // Each control has a name for screen readers, and each table has headings.
            let unnamed = browser.run(
                "return Array.from(document.querySelectorAll('input, select, button, a')).filter((node) => \
                 node.offsetParent && !(node.labels && node.labels.length) && !node.getAttribute('aria-label') && !node.textContent.trim()).length",
            );
            assert_eq!(unnamed, 0, "{name}");
            let found = browser.run(INACCESSIBLE);
            assert_eq!(found, json!([]), "{name} {look}");
        }
    }
}
