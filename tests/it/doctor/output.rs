//! The text output and the JSON output of doctor.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::cli_runner::Dlock;
use testkit::servers::{Flavour, shared};

use super::CHECKS;

#[test]
fn text_states_the_reason_and_the_fix_and_the_json_and_every_check_are_documented() {
    let database = shared(Flavour::of_this_test()).database("doctor");
    let text = Dlock::on(&database, ["doctor"]).run().stdout;
    let (_, finding) = text
        .split_once("\nwarn  tables        missing: ")
        .unwrap_or_else(|| panic!("{text}"));
    let lines: Vec<&str> = finding.lines().skip(1).take(2).collect();
    assert_eq!(
        lines,
        [
            "        why: the first dlock exec creates them; dlock status has nothing to show until then",
            "        fix: run dlock setup",
        ]
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/parts/dlock-doctor.man");
    let page = fs::read_to_string(path).expect("the page exists");
    let json = Dlock::on(&database, ["doctor", "--json"]).run().stdout;
    let document: Value = serde_json::from_str(&json).expect("the output is JSON");
    for (heading, object) in [
        ("\n.SS JSON\n", &document),
        ("\n.SS \"JSON: a setting\"\n", &document["settings"][0]),
        ("\n.SS \"JSON: a finding\"\n", &document["checks"][0]),
    ] {
        let (_, text) = page.split_once(heading).expect("the page has the section");
        let text = text.split("\n.S").next().expect("the section has text");
        let documented: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_suffix(')')?.split_once(" ("))
            .map(|(field, _)| field)
            .collect();
        let fields = object.as_object().expect("an object").keys();
        let fields = fields.map(String::as_str).collect();
        assert_eq!(documented, fields, "{heading}");
    }
    let items = page.split(".TP\n").filter_map(|item| item.lines().next());
    let names: Vec<&str> = items.flat_map(|tag| tag.split(", ")).collect();
    let from = names.iter().position(|name| *name == CHECKS[0]);
    assert_eq!(
        names[from.expect("the page lists the checks")..][..CHECKS.len()],
        CHECKS
    );
}
