//! `make bench` runs this benchmark. It compares the cost of `dlock status` with the cost of `etcdctl get --prefix`. It
//! also compares the cost in a database with a million actions with the cost in a database with a hundred actions.
//!
//! The benchmark starts one MariaDB, one MySQL and one etcd, all in `TMPDIR`. It fills tables, which takes about a
//! minute and 1.5 GB, and writes Markdown to stdout and to `bench/status.md` in the target folder. It fails if a program
//! fails, but not if a target is missed. Each program is timed `ROUNDS` times (100 by default).
//!
//! Arguments select sections: `cargo bench --bench status -- cost screen completion`. Without arguments, all sections
//! run. `cost` contains all comparisons above. `screen` measures the time until a user sees the first screen of
//! `dlock status` with 10 000 actions. `completion` measures the completion of a name in the shells. These two sections
//! need neither etcd nor the large tables.

mod completion;
mod cost;
mod screen;

use testkit::bench::markdown::Page;
use testkit::bench::{host, rounds, sections};

fn main() {
    let Some(sections) = sections(&["cost", "screen", "completion"], &[]) else {
        return;
    };
    let mut page = Page::new("What `dlock status` costs", "status");
    for section in sections {
        match section {
            "cost" => cost::section(&mut page, rounds(100)),
            "screen" => screen::section(&mut page, rounds(100)),
            _ => completion::section(&mut page, rounds(completion::MAX_ROUNDS)),
        }
        host::write_load(&mut page);
        page.publish();
    }
}
