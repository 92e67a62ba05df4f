//! Tests of the source layout: each layer imports only from the layers above it, and some words appear only in certain
//! layers.
//!
//! [`LAYERS`] lists the layers from top to bottom. A layer may import only from the layers above it, so cycles between
//! layers are impossible. The code of this file calls a layer a `room`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::{files_below, repository};

/// The layers of `src`. Each layer may import only from the layers before it in the list. A module that is not in the
/// list belongs to the longest entry that contains the module.
const LAYERS: [&str; 22] = [
    "mutant",
    "lease",
    "sys",
    "sys::output_file",
    "exit",
    "store",
    "store::mysql",
    "cli",
    "metrics",
    "protocol",
    "report",
    "config",
    "process",
    "event",
    "outcome",
    "locks",
    "watch",
    "watch::terminal",
    "watch::app",
    "serve",
    "commands",
    "lib",
];

/// Words, each with the layers that may contain the word. If the list of layers is empty, no layer may contain the
/// word.
const HOMES: [(&str, &[&str]); 29] = [
    ("unsafe ", &["sys"]),
    ("libc::", &["sys"]),
    ("rustix::", &["sys", "sys::output_file"]),
    (" mysql::", &["store::mysql"]),
    ("SELECT ", &["store::mysql"]),
    ("INSERT ", &["store::mysql"]),
    ("UPDATE ", &["store::mysql"]),
    ("DELETE FROM", &["store::mysql"]),
    ("GET_LOCK", &["store::mysql"]),
    // Only `outcome` maps the end of a run to an exit status. `exit` and `watch::app` also set the exit status after a
    // signal that arrives when no command runs.
    ("Status::TIMED_OUT", &["exit", "outcome"]),
    ("Status::from_signal", &["exit", "outcome", "watch::app"]),
    ("crossterm::", &["watch::terminal"]),
    ("clock_gettime", &["sys"]),
    ("Instant::now", &[]),
    ("SystemTime", &[]),
    ("print!", &[]),
    ("println!", &[]),
    ("io::stderr()", &["report", "sys"]),
    ("io::stdout()", &["report", "sys", "watch::terminal"]),
    ("process::exit", &[]),
    // The function of tokio does not block a thread.
    ("sleep(", &["serve"]),
    ("tokio::", &["serve"]),
    ("hyper::", &["serve"]),
    // dlock writes files in one way.
    ("create_new(", &["sys::output_file"]),
    ("fs::rename", &["sys::output_file"]),
    ("fs::copy", &[]),
    ("File::create", &[]),
    // The unit tests of `config` write files.
    ("fs::write", &["config"]),
    // Opens /dev/null.
    (".write(true)", &["sys", "sys::output_file"]),
];

#[test]
fn every_layer_imports_only_from_layers_above_it_and_no_two_files_import_each_other() {
    let sources = sources();
    let modules: Vec<String> = sources.iter().map(|(file, _)| module(file)).collect();
    // Returns the longest module path that contains `path`.
    let module_of = |path: &str| {
        let inside = |module: &&String| is_in(path, module);
        modules.iter().filter(inside).max_by_key(|name| name.len())
    };
    let mut edges = BTreeSet::new();
    for ((_, text), module) in sources.iter().zip(&modules) {
        let layer = room(module);
        for path in imported(module, text).iter().filter(|_| layer != "lib") {
            let is_above = self::layer(room(path)) <= self::layer(layer);
            assert!(is_above, "{module} imports {path}, which is below {layer}");
        }
        let code = text.split("\n#[cfg(test)]").next().unwrap_or(text);
        let is_code = |line: &&str| !line.trim_start().starts_with("//");
        let code: Vec<&str> = code.lines().filter(is_code).collect();
        let code = &code.join("\n");
        let mut paths = imported(module, code);
        // A module can also import its child modules, with `self::` or without a prefix.
        let prefix = format!("{module}::");
        for child in modules.iter().filter_map(|name| name.strip_prefix(&prefix)) {
            let start = format!("{child}::");
            let mut uses = code.match_indices(&start);
            let is_import = |before: &str| {
                let is_part = |c: char| c.is_alphanumeric() || ":_`".contains(c);
                before.ends_with("self::") || !before.ends_with(is_part)
            };
            if uses.any(|(at, _)| is_import(&code[..at])) {
                paths.push(format!("{prefix}{child}"));
            }
        }
        let targets = paths.iter().filter_map(|path| module_of(path));
        edges.extend(targets.filter(|to| *to != module).map(|to| (module, to)));
    }
    let number = edges.len();
    assert!(number > 300, "the test found only {number} imports");
    let is_mutual = |(from, to): &&(_, _)| from < to && edges.contains(&(*to, *from));
    let mutual: Vec<&(&String, &String)> = edges.iter().filter(is_mutual).collect();
    assert!(mutual.is_empty(), "{mutual:?}");
}

fn is_in(path: &str, module: &str) -> bool {
    let rest = path.strip_prefix(module);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn files_start_with_a_description_and_restricted_words_appear_only_in_their_layers() {
    let mut found = 0;
    for (file, text) in sources() {
        let has_description = text.starts_with("//! ");
        assert!(has_description, "{} has no description", file.display());
        let room = room(&module(&file));
        for (word, homes) in HOMES {
            let used = text.lines().any(|line| {
                let code = line.trim_start();
                !code.starts_with("//") && format!(" {code}").contains(word)
            });
            found += usize::from(used);
            let (file, is_home) = (file.display(), homes.contains(&room));
            assert!(!used || is_home, "{word:?} is in {file}, not in {homes:?}");
        }
    }
    assert!(found > 10, "the test found only {found} words");
}

#[test]
fn documents_list_every_layer_and_only_existing_files_and_functions() {
    let mut shown = Vec::new();
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"] {
        let text = fs::read_to_string(repository().join(page)).expect("the page exists");
        for path in text.split('`').skip(1).step_by(2) {
            let folders = ["src/", "tests/", "benches/", "man/"];
            let is_below = folders.iter().any(|folder| path.starts_with(folder));
            if is_below && !path.contains([' ', '*']) {
                let is_there = repository().join(path).exists();
                assert!(is_there, "{page} lists {path}, which does not exist");
                let path = path.trim_end_matches(".rs").trim_end_matches('/');
                shown.push(path.to_owned());
            }
        }
    }
    for room in LAYERS {
        let path = format!("src/{}", room.replace("::", "/"));
        assert!(shown.contains(&path), "no page lists {path}");
    }

    // Each function to which ARCHITECTURE.md links is in its file.
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).expect("the page exists");
    let mut number = 0;
    for rest in text.split("[`").skip(1) {
        let Some((name, rest)) = rest.split_once("`](") else {
            continue;
        };
        let (file, _) = rest.split_once(')').expect("the end of the link");
        let name = name.strip_suffix("()").expect("the link is to a function");
        let (owner, function) = name.rsplit_once("::").unwrap_or(("", name));
        let source = fs::read_to_string(repository().join(file)).expect("the linked file exists");
        let starts = [format!("fn {function}("), format!("fn {function}<")];
        let is_there = starts.iter().any(|start| source.contains(start)) && source.contains(owner);
        assert!(is_there, "{file} does not contain {name}");
        number += 1;
    }
    assert!(number > 20, "the test found only {number} links");
}

fn layer(room: &str) -> usize {
    let layer = LAYERS.iter().position(|layer| *layer == room);
    layer.expect("LAYERS contains the layer")
}

fn sources() -> Vec<(PathBuf, String)> {
    let files = files_below(&repository().join("src"), "rs").into_iter();
    let read = |path: &PathBuf| fs::read_to_string(path).expect("a source file is UTF-8");
    files.map(|path| (path.clone(), read(&path))).collect()
}

/// Returns the module path of a file, for example `store::mysql::rows` for `src/store/mysql/rows.rs`.
fn module(file: &Path) -> String {
    let root = repository().join("src");
    let relative = file.strip_prefix(root).expect("the file is in src");
    let path = relative.with_extension("");
    path.to_str()
        .expect("the names are ASCII")
        .replace('/', "::")
}

/// Returns the layer that contains a module or a path. The crate root and `main` belong to the layer `lib`.
fn room(path: &str) -> &'static str {
    let inside = LAYERS.into_iter().filter(|room| is_in(path, room));
    let longest = inside.max_by_key(|room| room.len());
    let longest = longest.or((path == "main").then_some("lib"));
    longest.unwrap_or_else(|| panic!("{path} is in no layer of LAYERS"))
}

/// Returns all paths in `text` that begin with `crate::` or `super::`, as paths from the crate root. Expands one level
/// of braces. `text` is the source of `module`. The unit tests of `module` are a child module.
fn imported(module: &str, text: &str) -> Vec<String> {
    let tests = text.find("\nmod tests {").unwrap_or(text.len());
    let mut paths = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            // The first `super::` of a chain covers the whole chain. A path after `(in ` is a visibility, not an
            // import.
            if text[..at].ends_with("super::") || text[..at].ends_with("(in ") {
                continue;
            }
            let mut below: Vec<&str> = module.split("::").collect();
            if at > tests {
                below.push("tests");
            }
            let mut after = &text[at..];
            if start == "crate::" {
                below.clear();
                after = &after[start.len()..];
            }
            while let Some(rest) = after.strip_prefix("super::") {
                below.pop();
                after = rest;
            }
            let base = below.join("::");
            // Items of the crate root and of inline modules belong to no layer.
            let in_a_room = |path: &String| path.starts_with(|first: char| first.is_lowercase());
            let full = |name| format!("{base}::{name}").trim_start_matches(':').to_owned();
            paths.extend(named(after).into_iter().map(full).filter(in_a_room));
        }
    }
    paths
}

/// Returns the path at the start of `text`, or one path for each name in braces at the end of that path.
fn named(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let (path, rest) = text.split_at(end.unwrap_or(text.len()));
    let path = path.trim_end_matches(':');
    match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((names, _)) => {
            let names = names.split(',').map(str::trim);
            let names = names.filter(|name| !name.is_empty());
            let full = |name| format!("{path}::{name}").trim_start_matches(':').to_owned();
            names.map(full).collect()
        }
        None => vec![path.to_owned()],
    }
}
