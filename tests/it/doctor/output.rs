//! The text output and the JSON output of doctor.

use testkit::cli_runner::Dlock;
use testkit::servers::{Flavour, shared};

use super::CHECKS;
use crate::documents::{document, fields_are_documented, tags};

#[test]
fn text_states_the_reason_and_the_fix_and_the_json_and_every_check_are_documented() {
    let database = shared(Flavour::of_this_test()).database("doctor");
    let text = Dlock::on(&database, ["doctor"]).run().stdout;
    let (_, finding) = text
        .split_once("\nwarn  tables        missing: ")
        .unwrap_or_else(|| panic!("{text}"));
    let (_, advice) = finding.split_once('\n').expect("a line follows");
    let wanted = "        why: the first dlock exec creates them; dlock status has nothing to show \
                  until then\n\
                  \u{20}       fix: run dlock setup\n";
    assert!(advice.starts_with(wanted), "{advice}");
    let page = "man/parts/dlock-doctor.man";
    let json = Dlock::on(&database, ["doctor", "--json"]).run().json();
    let (setting, finding) = (&json["settings"][0], &json["checks"][0]);
    fields_are_documented(page, ".SS JSON", &json);
    fields_are_documented(page, ".SS \"JSON: a setting\"", setting);
    fields_are_documented(page, ".SS \"JSON: a finding\"", finding);
    let page = document(page);
    assert!(tags(&page).join(" ").contains(CHECKS), "{page}");
}
