//! The line: who is served when, what happens to it when somebody in it dies or freezes or loses
//! its connection, and what a waiter does where the gate does not work.

use std::fs;
use std::path::PathBuf;

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::command::{Stage, heard, signal, tell};
use crate::dlock::{Dlock, Running, eventually};
use crate::proxy::Proxy;
use crate::servers::{Database, Flavour, SESSIONS, Server, shared};

/// Contenders for `init` whose commands write their names into one file.
struct Line {
    database: Database,
    stage: Stage,
    admin: Conn,
    ttl: &'static str,
}

impl Line {
    /// On leases that are short enough for a test to see them end.
    fn on(server: &Server) -> Self {
        Self::with_ttl(server, "3s")
    }

    fn with_ttl(server: &Server, ttl: &'static str) -> Self {
        let database = server.database("line");
        Dlock::on(&database, ["setup", "-q"])
            .run()
            .expect(0, "", "");
        Self {
            admin: database.admin_conn(),
            database,
            stage: Stage::new(),
            ttl,
        }
    }

    fn log(&self) -> PathBuf {
        self.stage.path("log")
    }

    fn served(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// A contender whose command says its name and ends.
    fn contender(&self, name: &str, options: &[&str]) -> Dlock {
        Dlock::on(
            &self.database,
            ["exec", "-a", "init", "--ttl", self.ttl, "--holder", name],
        )
        .args(options)
        .args(["--", "sh", "-c", r#"echo "$DLOCK_HOLDER" >> "$1""#, "sh"])
        .arg(self.log())
    }

    /// A holder that stays until it is told to go, or is told by a signal.
    fn holder(&self) -> Running {
        let (ready, go) = (self.stage.fifo("ready"), self.stage.fifo("go"));
        let running = Dlock::on(&self.database, ["exec", "-a", "init", "--ttl", self.ttl])
            .args(["--holder", "holder", "--", "sh", "-c"])
            .arg(r#"echo up > "$1"; read word < "$2"; exit 3"#)
            .arg("sh")
            .arg(&ready)
            .arg(&go)
            .start();
        heard(&ready);
        running
    }

    fn let_go(&self) {
        tell(&self.stage.path("go"), "on");
    }

    /// Starts `names` one after the other, each when the one before stands in line.
    fn queue(&mut self, names: &[&str]) -> Vec<Running> {
        let mut running = Vec::new();
        for name in names {
            running.push(self.contender(name, &[]).start());
            let admin = &mut self.admin;
            eventually("the waiter stands at the gate", || {
                let standing: Vec<u64> = admin
                    .query(format!(
                        "SELECT w.session_id FROM dlock_waiter w \
                         JOIN {SESSIONS} p ON p.id=w.session_id WHERE p.info LIKE '%GET_LOCK%'"
                    ))
                    .expect("shows the waiters");
                standing.len() >= running.len()
            });
        }
        running
    }

    fn count(&mut self, what: &str) -> u64 {
        self.admin
            .query_first(format!("SELECT COUNT(*) FROM {what}"))
            .expect("counts")
            .expect("one row")
    }
}

fn end_well(waiters: Vec<Running>) {
    for waiter in waiters {
        waiter.wait().expect(0, "", "init is held by");
    }
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[test]
fn waiters_are_served_in_order_of_arrival_and_leave_nothing_behind() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let waiters = line.queue(&NAMES);
        line.let_go();
        holder.wait().expect(3, "", "");
        end_well(waiters);
        assert_eq!(line.served(), NAMES, "{flavour}");
        assert_eq!(line.count("dlock_waiter"), 0, "{flavour}");
    }
}

#[test]
fn a_newcomer_does_not_barge() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let waiters = line.queue(&["a"]);
        // What a release leaves for a moment: a free row, and the gate on its way to the next.
        line.admin
            .query_drop("UPDATE dlock_lock SET claim=NULL")
            .expect("the row can be changed");
        line.contender("barger", &["-n"])
            .run()
            .expect(75, "", "init is");
        // The holder finds out and stops.
        holder.wait().expect(76, "", "lost init");
        end_well(waiters);
        assert_eq!(line.served(), ["a"], "{flavour}");
    }
}

#[test]
fn a_waiter_that_leaves_or_dies_is_passed_over() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let mut waiters = line.queue(&NAMES);
        waiters.remove(3).signal("KILL");
        let leaver = waiters.remove(1);
        leaver.signal("TERM");
        leaver.wait().expect(143, "", "while waiting for init");
        line.let_go();
        holder.wait().expect(3, "", "");
        end_well(waiters);
        assert_eq!(line.served(), ["a", "c", "e", "f"], "{flavour}");
    }
}

#[test]
fn the_place_of_a_waiter_that_was_killed_is_cleared_by_the_next_to_come() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let [killed, other] = ["a", "b"].map(|name| line.queue(&[name]).remove(0));
        killed.signal("KILL");
        let status = || Dlock::on(&line.database, ["status", "init"]).run().stdout;
        eventually("status tells that the session is gone", || {
            status().contains("gone")
        });
        // Nobody looks for the dead before the first has stood for a while.
        line.database
            .admin_conn()
            .query_drop("UPDATE dlock_waiter SET since=since-INTERVAL 1 MINUTE")
            .expect("the rows can be changed");
        let last = line.contender("c", &[]).start();
        eventually("the place is cleared", || !status().contains("gone"));
        line.let_go();
        holder.wait().expect(3, "", "");
        end_well(vec![other, last]);
    }
}

#[test]
fn a_holder_that_loses_its_connection_keeps_the_lock_and_the_line_keeps_its_order() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let waiters = line.queue(&NAMES);
        let session: u64 = line
            .admin
            .query_first("SELECT session_id FROM dlock_lock")
            .expect("the table is there")
            .expect("the row is there");
        line.admin
            .query_drop(format!("KILL {session}"))
            .expect("kills");
        // The first waiter has the gate now and is the head; two leases later it still only looks.
        let mut admin = line.database.admin_conn();
        eventually("the lease is renewed on the new session", || {
            let renewals: Option<(u64, u64, u8)> = admin
                .query_first("SELECT session_id,renewals,gated FROM dlock_lock")
                .expect("the table is there");
            renewals
                .is_some_and(|(now, renewals, gated)| now != session && renewals > 12 && gated == 0)
        });
        assert_eq!(line.served(), Vec::<String>::new(), "{flavour}");
        line.let_go();
        let outcome = holder.wait();
        outcome.expect(3, "", "is renewed again");
        end_well(waiters);
        assert_eq!(line.served(), NAMES, "{flavour}");
    }
}

#[test]
fn a_server_that_is_restarted_under_twenty_waiters_serves_them_all() {
    for flavour in Flavour::ALL {
        let mut server = Server::start(flavour, &[]);
        let mut line = Line::with_ttl(&server, "30s");
        let holder = line.holder();
        let names: Vec<String> = (10..30).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let waiters = line.queue(&names);
        server.restart();
        line.admin = line.database.admin_conn();
        let renewals = "SELECT renewals FROM dlock_lock";
        let before: Option<u64> = line
            .admin
            .query_first(renewals)
            .expect("the table is there");
        eventually("the lease is renewed on the new server", || {
            let now: Option<u64> = line
                .admin
                .query_first(renewals)
                .expect("the table is there");
            now > before
        });
        line.let_go();
        assert_eq!(holder.wait().status, Some(3), "{flavour}");
        for waiter in waiters {
            waiter.wait().expect(0, "", "init is held by");
        }
        let mut all = line.served();
        all.sort();
        assert_eq!(all, names, "{flavour}");
    }
}

#[test]
fn a_frozen_holder_blocks_nobody_and_finds_out_when_it_thaws() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let waiters = line.queue(&["a", "b"]);
        signal(holder.pid(), "STOP");
        end_well(waiters);
        assert_eq!(line.served(), ["a", "b"], "{flavour}");
        signal(holder.pid(), "CONT");
        let outcome = holder.wait();
        assert_eq!(outcome.status, Some(76), "{flavour}: {outcome:?}");
    }
}

#[test]
fn a_frozen_waiter_delays_the_line_for_its_session_and_no_longer() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let mut waiters = line.queue(&["a", "b", "c", "d"]);
        // One in the middle, who will be given the gate while it sleeps.
        let frozen = waiters.remove(1);
        signal(frozen.pid(), "STOP");
        line.let_go();
        holder.wait().expect(3, "", "");
        end_well(waiters);
        assert_eq!(line.served(), ["a", "c", "d"], "{flavour}");
        signal(frozen.pid(), "CONT");
        end_well(vec![frozen]);
        assert_eq!(line.served(), ["a", "c", "d", "b"], "{flavour}");
    }
}

#[test]
fn a_frozen_head_is_replaced() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let mut waiters = line.queue(&["a", "b"]);
        // The holder dies; the first waiter gets the gate and watches the lease run out, frozen.
        holder.signal("KILL");
        let mut admin = line.database.admin_conn();
        eventually("the first waiter is the head", || {
            let standing: Vec<String> = admin
                .query(format!(
                    "SELECT CAST(w.holder AS CHAR) FROM dlock_waiter w \
                     JOIN {SESSIONS} p ON p.id=w.session_id WHERE p.info LIKE '%GET_LOCK%'"
                ))
                .expect("shows the waiters");
            standing == ["b"]
        });
        let head = waiters.remove(0);
        signal(head.pid(), "STOP");
        end_well(waiters);
        assert_eq!(line.served(), ["b"], "{flavour}");
        signal(head.pid(), "CONT");
        end_well(vec![head]);
        assert_eq!(line.served(), ["b", "a"], "{flavour}");
    }
}

#[test]
fn a_gate_that_a_stranger_keeps_for_a_ttl_is_done_without() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let name: String = line
            .admin
            .query_first("SELECT CONCAT('dlock:',LEFT(SHA2(CONCAT(DATABASE(),'/','init'),256),40))")
            .expect("computes")
            .expect("one row");
        let mut stranger = line.database.admin_conn();
        let taken: Option<u8> = stranger
            .query_first(format!("SELECT GET_LOCK('{name}',0)"))
            .expect("takes the gate");
        assert_eq!(taken, Some(1));
        let verbose = line.contender("a", &["-v"]).run();
        verbose.expect(0, "", "named locks do not work on this server");
        let holder = line.holder();
        line.contender("b", &["-n"])
            .run()
            .expect(75, "", "init is held by holder");
        let waiter = line.contender("c", &[]).start();
        waiter.heard("init is held by holder");
        line.let_go();
        assert_eq!(holder.wait().status, Some(3), "{flavour}");
        end_well(vec![waiter]);
        assert_eq!(line.served(), ["a", "c"], "{flavour}");
    }
}

#[test]
fn more_contenders_than_connections_are_all_served() {
    const CONTENDERS: usize = 300;
    for flavour in Flavour::ALL {
        let server = Server::start(flavour, &[]);
        let line = Line::on(&server);
        let names: Vec<String> = (0..CONTENDERS)
            .map(|number| format!("{number:03}"))
            .collect();
        let running: Vec<Running> = names
            .iter()
            .map(|name| line.contender(name, &[]).start())
            .collect();
        for running in running {
            assert_eq!(running.wait().status, Some(0), "{flavour}");
        }
        let mut all = line.served();
        all.sort();
        assert_eq!(all, names, "{flavour}");
    }
}

#[test]
fn status_shows_the_line_in_order_with_who_is_alive() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let waiters = line.queue(&["web-2", "web-3"]);
        let text = Dlock::on(&line.database, ["status", "--json"]).run().stdout;
        let document: serde_json::Value = serde_json::from_str(&text).expect("is JSON");
        let lock = &document["locks"][0];
        assert_eq!(
            (&lock["action"], &lock["holder"]),
            (&"init".into(), &"holder".into())
        );
        let places = lock["waiters"].as_array().expect("a list");
        let seen: Vec<_> = places
            .iter()
            .map(|place| {
                (
                    place["place"].as_u64(),
                    place["holder"].as_str(),
                    place["alive"].as_bool(),
                )
            })
            .collect();
        let expected = [
            (Some(1), Some("web-2"), Some(true)),
            (Some(2), Some("web-3"), Some(true)),
        ];
        assert_eq!(seen, expected, "{flavour}");
        assert_eq!(places[1]["pid"].as_u64(), Some(waiters[1].pid().into()));
        let table = Dlock::on(&line.database, ["status"]).run().stdout;
        assert!(
            table.contains("PLACE") && table.contains("alive"),
            "{table}"
        );
        line.let_go();
        holder.wait().expect(3, "", "");
        end_well(waiters);
    }
}

/// Ways in which named locks do not work, each as what the server hears instead of `GET_LOCK`, and
/// the body of a function of that name.
const BROKEN_GATES: [(&str, Option<&str>); 3] = [
    ("NOT_LOCK(", None),
    ("NUL_LOCK(", Some("RETURN NULL")),
    ("LIE_LOCK(", Some("RETURN 1")),
];

#[test]
fn without_named_locks_waiters_look_in_turn_and_one_at_a_time_is_served() {
    for flavour in Flavour::ALL {
        for (heard, body) in BROKEN_GATES {
            let server = shared(flavour);
            let mut line = Line::on(server);
            if let Some(body) = body {
                let name = heard.trim_end_matches('(');
                line.admin
                    .query_drop(format!(
                        "CREATE FUNCTION {name}(name VARCHAR(64), seconds BIGINT) RETURNS INT \
                         DETERMINISTIC NO SQL {body}"
                    ))
                    .expect("creates a function");
            }
            let said = "GET_LOCK(";
            let proxy = Proxy::rewriting(server.port(), said, heard);
            let url = line.database.url_through(proxy.port());
            let through = |dlock: Dlock| dlock.env("DLOCK_URL", &url);

            let verbose = through(line.contender("a", &["-v"])).run();
            let told = verbose.stderr.matches("named locks do not work").count();
            assert_eq!(
                (verbose.status, told),
                (Some(0), 1),
                "{flavour} {heard}: {verbose:?}"
            );

            let holder = line.holder();
            let mut waiters = Vec::new();
            for name in ["b", "c", "d"] {
                waiters.push(through(line.contender(name, &[])).start());
                let polling = "dlock_waiter WHERE polls=1";
                eventually("the waiter has its place", || {
                    line.count(polling) >= waiters.len() as u64
                });
            }
            line.let_go();
            holder.wait().expect(3, "", "");
            end_well(waiters);
            assert_eq!(line.served(), ["a", "b", "c", "d"], "{flavour} {heard}");
        }
    }
}

#[test]
fn an_account_that_could_not_clear_its_place_is_refused_before_the_command_runs() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        let Database { name, user, .. } = line.database.clone();
        let pattern = name.replace('_', "\\_");
        line.admin
            .query_drop(format!("REVOKE DELETE ON `{pattern}`.* FROM '{user}'@'%'"))
            .expect("grants can be changed");
        let refused = line.contender("a", &[]).run();
        refused.expect(
            77,
            "",
            "dlock setup --print shows the tables and the grants",
        );
        line.let_go();
        assert_eq!(holder.wait().status, Some(3), "{flavour}");
        assert_eq!(line.served(), Vec::<String>::new(), "{flavour}");
    }
}

#[test]
fn who_leaves_the_line_gives_its_place_up() {
    for flavour in Flavour::ALL {
        let mut line = Line::on(shared(flavour));
        let holder = line.holder();
        for waiter in line.queue(&NAMES) {
            waiter.signal("TERM");
            waiter.wait().expect(143, "", "while waiting for init");
        }
        // Nobody stays for that: one for which the server was too slow leaves its row to the next.
        let left = line.count("dlock_waiter");
        assert!(
            left < NAMES.len() as u64,
            "{flavour}: {left} places are left"
        );
        line.let_go();
        holder.wait().expect(3, "", "");
    }
}
