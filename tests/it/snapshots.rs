//! Checks that each snapshot in `src` belongs to a test. A snapshot that no test reads would hide that its output is
//! not tested.

use std::fs;

use testkit::{files_below, repository};

#[test]
fn every_snapshot_belongs_to_a_test() {
    let files = files_below(&repository().join("src"), "snap");
    assert!(files.len() > 40, "only {} snapshots found", files.len());
    for file in files {
        let snapshot = fs::read_to_string(&file).expect("a snapshot is UTF-8");
        let mut lines = snapshot.lines();
        let source = lines.find_map(|line| line.strip_prefix("source: "));
        let source = source.unwrap_or_else(|| panic!("no source in {}", file.display()));
        let source = fs::read_to_string(repository().join(source)).unwrap_or_default();
        let name = file.file_stem().expect("a name").to_string_lossy();
        let test = name.rsplit("__").next().unwrap_or_default();
        assert!(
            source.contains(&format!("fn {test}()")) || source.contains(&format!("\"{test}\"")),
            "{} belongs to no test: delete it",
            file.display()
        );
    }
}
