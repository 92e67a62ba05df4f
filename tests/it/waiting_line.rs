//! Tests of the line that a waiter rewrites on a terminal.

use testkit::holder::Holder;
use testkit::servers::{Flavour, shared};
use testkit::terminal::Terminal;

const ERASE: &str = "\r\x1b[K";

/// A label that does not fit into 40 columns.
const LABEL: &str = "a holder whose label is longer than 40 columns";

#[test]
fn waiter_in_the_foreground_rewrites_one_line_that_fits_the_terminal() {
    let database = shared(Flavour::of_this_test()).database("line");
    let holder = Holder::on(&database, &["--holder", LABEL]);
    let mut terminal = Terminal::shell(&database);
    terminal.becomes(40, 24);
    terminal.enters("$dlock exec -a init -- echo r''an &");
    terminal.prompts();
    // The user runs a command for longer than the pause between two lines.
    terminal.enters("sleep 2; echo sl''ept").sees("slept");
    let screen = terminal.screen();
    assert!(!screen.contains("dlock: ") && !screen.contains(ERASE));
    terminal.enters("fg");
    for _ in 0..2 {
        terminal.sees(&format!("{ERASE}dlock: waiting "));
    }
    // The last text may not be complete yet.
    terminal.sees(ERASE);
    let screen = terminal.screen().to_owned();
    let mut texts: Vec<&str> = screen.split(ERASE).skip(1).collect();
    texts.pop();
    for text in texts {
        assert_eq!(text.chars().count(), 39, "{text:?}");
        assert!(text.ends_with('…') && !text.contains('\n'), "{text:?}");
    }
    terminal.becomes(120, 24);
    terminal.sees(&format!("s for init: held by {LABEL}{ERASE}"));
    assert_eq!(holder.end().status, Some(3));
    terminal.sees(&format!("{ERASE}ran\r\n"));
}
