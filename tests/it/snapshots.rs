//! Checks that each snapshot in `src` belongs to a test. A snapshot that no test reads would hide that its output is
//! not tested.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn every_snapshot_belongs_to_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    assert!(files.len() > 40, "only {} snapshots found", files.len());
    for file in files {
        let snapshot = fs::read_to_string(&file).expect("a snapshot is UTF-8");
        let source = snapshot
            .lines()
            .find_map(|line| line.strip_prefix("source: "));
        let source = source.unwrap_or_else(|| panic!("no source in {}", file.display()));
        let source = fs::read_to_string(root.join(source)).unwrap_or_default();
        let name = file.file_stem().expect("a name").to_string_lossy();
        let test = name.rsplit("__").next().unwrap_or_default();
        assert!(
            source.contains(&format!("fn {test}()")) || source.contains(&format!("\"{test}\"")),
            "{} belongs to no test: delete it",
            file.display()
        );
    }
}

/// Adds all snapshots below `folder` to `files`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "snap")
        {
            files.push(path);
        }
    }
}
