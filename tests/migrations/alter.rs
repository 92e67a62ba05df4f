//! Runs the rounds of an ALTER without a tool. In each round, the command is the client of the server with an ALTER that
//! would take a minute. The holder is killed while the ALTER runs, and a second contender starts its command next.

use std::time::Duration;

use mysql::prelude::Queryable;
use testkit::arguments::random;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Flavour, Server};
use testkit::sql::Sql;

use crate::app_database::AppDatabase;
use crate::checks::{Fate, KillKind, Round};
use crate::kill::kill;
use crate::migration::{results, sleep_until, wait_for_end};
use crate::observer::Observer;
use crate::options::Options;
use crate::start::BEGIN;
use crate::statements::{CREATE_PLANS, Cost, insert_plans};

/// Name of these rounds in the report, and the action.
pub(crate) const NAME: &str = "alter";

/// Shortest time from the start of the ALTER to the kill.
const EARLIEST: Duration = Duration::from_millis(300);

/// The rounds of an ALTER on one server. All rounds use the same table, because a killed ALTER leaves it unchanged.
pub(crate) struct Alters<'a> {
    server: &'a Server,
    options: &'a Options,
    app: AppDatabase,
    add_currency: String,
}

impl<'a> Alters<'a> {
    pub(crate) fn new(server: &'a Server, options: &'a Options, cost: &Cost) -> Self {
        let app = AppDatabase::new(server, options);
        let (rows, time) = (options.scale.alter_rows, options.scale.alter_time);
        let mut admin = app.admin();
        admin.run(CREATE_PLANS);
        admin.run(insert_plans(rows));
        Self {
            server,
            options,
            app,
            add_currency: cost.add_currency(rows, time),
        }
    }

    /// Runs round `number`, from 1. The number determines the kind of the kill, and together with the seed its moment.
    pub(crate) fn round(&self, number: u32) -> Round {
        let flavour = self.server.flavour();
        // The flavours begin with different kinds, so that each flavour of a short run has several.
        let kind = number as usize + usize::from(flavour == Flavour::MariaDb);
        let kind = KillKind::EACH[kind % KillKind::EACH.len()];
        let mut rng = random(self.options.seed, &format!("{flavour}/{NAME}/{number}"));
        let stage = Stage::new();
        let observer = Observer::start(&self.app, &stage, false, Box::new(|_| None));
        let holder = self.replica(&observer, 0).args(self.client()).start();
        let first = observer.first();
        let contender = self.replica(&observer, 1).arg("true").start();
        let delay = EARLIEST + self.options.scale.latest_kill.mul_f64(rng.f64());
        if let Some(altering) = observer.altering() {
            sleep_until(altering + delay);
            if !self.options.is_timed {
                self.app.wait_until_recorded();
            }
        }
        let mut replicas = vec![(Fate::Killed, holder), (Fate::Survivor, contender)];
        let mut schema = Vec::new();
        if first.replica != 0 || replicas[0].1.is_over() {
            schema.push("the holder ended before the kill".to_owned());
        }
        let pid = replicas[0].1.pid();
        let killed = observer.kill(|| kill(kind, pid, self.server.port()));
        wait_for_end(&mut replicas, killed);
        let next = observer.finish();
        let replicas = results(replicas);
        // In a failed round, the ALTER still runs. The next round needs the table without the column.
        self.app.end_sessions();
        let mut admin = self.app.admin();
        let undo = "ALTER TABLE plans DROP COLUMN digest, DROP COLUMN currency";
        if admin.query_drop(undo).is_ok() {
            schema.push("the killed ALTER has committed".to_owned());
        }
        Round {
            kind,
            moment: format!("{delay:.1?} after the start of the ALTER"),
            next,
            replicas,
            schema,
            allowed: kind.allowed(self.options.scale.ttl),
        }
    }

    /// Returns a `dlock exec` without the arguments of its command.
    fn replica(&self, observer: &Observer, replica: usize) -> Dlock {
        let begin = std::env::current_exe().expect("the path of this program is known");
        let ttl = format!("{}s", self.options.scale.ttl.as_secs());
        let exec = Dlock::of(&self.options.dlock, ["exec", "-a", NAME, "--ttl", &ttl])
            .arg("--")
            .arg(begin)
            .arg(BEGIN)
            .env("MYSQL_PWD", &self.app.dlock.password);
        observer.observed(exec, &self.app, replica)
    }

    fn client(&self) -> Vec<String> {
        vec![
            self.server.flavour().client().display().to_string(),
            "--no-defaults".to_owned(),
            "--host=127.0.0.1".to_owned(),
            format!("--port={}", self.server.port()),
            format!("--user={}", self.app.dlock.user),
            format!("--database={}", self.app.name),
            format!("--execute={}", self.add_currency),
        ]
    }
}
