//! The section `completion`: how long a user waits for the Tab key in a shell, while the server responds, refuses
//! connections, or accepts them and never answers.
//!
//! A user may type on while the shell completes a word, and sees the next letter only afterwards. The benchmark
//! therefore types the Tab key and one more letter, and measures the time until the terminal shows this letter.

use std::net::TcpListener;
use std::time::Duration;

use testkit::bench::markdown::{Page, verdict};
use testkit::bench::sample::{millis, percentile};
use testkit::bench::site::Site;
use testkit::middle::free_port;
use testkit::servers::Flavour;
use testkit::shell::{Kind, Shell};

/// Target: the maximum time of a completion.
const LIMIT: Duration = Duration::from_millis(300);

/// Maximum number of completions in each shell with each server.
pub(crate) const MAX_ROUNDS: usize = 20;

/// The name that is completed, and its beginning.
const NAME: &str = "migrate";
const TYPED: &str = "dlock exec -a mi";

/// Measures all shells with each server, and writes the section.
pub(crate) fn section(page: &mut Page, rounds: usize) {
    let sites = Flavour::ALL.map(|flavour| Site::start(flavour, &[]));
    for site in &sites {
        site.database
            .run(format!("INSERT INTO dlock_lock (action) VALUES ('{NAME}')"));
    }
    let [maria, mysql] = sites.each_ref().map(|site| &site.database);
    let silent = TcpListener::bind("127.0.0.1:0").expect("127.0.0.1 has a free port");
    let silent_port = silent.local_addr().expect("it is bound").port();
    let refused_port = free_port();
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        for (server, database, url, shown) in [
            ("MariaDB", maria, maria.url(), "migrate"),
            ("MySQL", mysql, mysql.url(), "migrate"),
            ("refuses", maria, maria.url_through(refused_port), "mi"),
            ("never answers", maria, maria.url_through(silent_port), "mi"),
        ] {
            let mut shell = Shell::with(database, kind, &[&format!("DLOCK_URL={url}")]);
            // The first completion loads the completion script.
            shell.time_of_tab(TYPED, shown);
            let times: Vec<Duration> = (0..rounds)
                .map(|_| shell.time_of_tab(TYPED, shown))
                .collect();
            let [middle, high] = [50, 90].map(|part| percentile(&times, part));
            rows.push(vec![
                format!("{kind:?}, {server}"),
                millis(middle),
                millis(high),
                millis(percentile(&times, 100)),
                verdict(middle <= LIMIT).to_owned(),
            ]);
        }
    }
    page.section(
        "The completion of a name",
        &format!(
            "The time from the Tab key until the shell shows the next key, in {rounds} completions of a name in each \
             shell. The times are in milliseconds."
        ),
    );
    let limit = LIMIT.as_millis();
    page.table(
        &format!(" | median | p90 | maximum | median ≤ {limit}"),
        &rows,
    );
}
