//! Runs the rounds of a tool. In each round, three replicas start at the same time with a new database, and the holder
//! is killed at a random moment.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use testkit::arguments::random;
use testkit::cli_runner::{Dlock, Running};
use testkit::command::Stage;
use testkit::servers::Server;
use testkit::sql::Sql;

use crate::app_database::AppDatabase;
use crate::checks::{Fate, KillKind, Replica, Round};
use crate::kill::kill;
use crate::observer::Observer;
use crate::options::Options;
use crate::start::{ADD_CURRENCY, ADD_CURRENCY_FAST, BEGIN};
use crate::statements::{Cost, add_currency, insert_plans};
use crate::tool::Tool;

const REPLICAS: usize = 3;

/// First estimate of the time from the start of a tool to its ALTER.
const FIRST_ESTIMATE: Duration = Duration::from_millis(1_500);

/// Time after the kill for which the harness waits for all replicas. On a busy machine, the start of a tool takes long.
const MAX_ROUND: Duration = Duration::from_mins(4);

pub(crate) struct Migrations<'a> {
    server: &'a Server,
    tool: &'static Tool,
    options: &'a Options,
    /// The folder that contains the program of the tool.
    programs: PathBuf,
    add_currency: String,
    /// Time from the start of the latest command to its ALTER.
    before_alter: Duration,
}

impl<'a> Migrations<'a> {
    pub(crate) fn new(
        server: &'a Server,
        tool: &'static Tool,
        options: &'a Options,
        cost: &Cost,
    ) -> Self {
        Self {
            server,
            tool,
            options,
            programs: tool.programs(),
            add_currency: cost.add_currency(options.scale.rows, options.scale.migration_time()),
            before_alter: FIRST_ESTIMATE,
        }
    }

    /// Runs round `number`, from 1. The number determines the kind of the kill, and together with the seed its moment.
    pub(crate) fn round(&mut self, number: u32) -> Round {
        let tool = self.tool;
        // The tools begin with different kinds, so that a short run has all kinds.
        let offset = Tool::ALL.iter().position(|it| it.name == tool.name);
        let kind = number as usize + offset.expect("the tool is in the list");
        let kind = KillKind::EACH[kind % KillKind::EACH.len()];
        let flavour = self.server.flavour();
        let name = tool.name;
        let mut rng = random(self.options.seed, &format!("{flavour}/{name}/{number}"));
        let app = AppDatabase::new(self.server, self.options);
        let stage = Stage::new();
        self.install(&stage);
        let name = app.name.clone();
        let half_done =
            Box::new(move |admin: &mut mysql::Conn| tool.progress(admin, &name).half_done());
        let observer = Observer::start(&app, &stage, true, half_done);
        let start = |replica| self.replica(&app, &stage, &observer, replica).start();
        let mut replicas: Vec<(Fate, Running)> = (0..REPLICAS)
            .map(|replica| (Fate::Survivor, start(replica)))
            .collect();
        let first = observer.first();
        replicas[first.replica].0 = Fate::Killed;

        let mut before_alter = self.before_alter;
        // After the first round, a third of the kills can hit the tool before its ALTER.
        let moment = match rng.u32(0..3) {
            0 if number > 1 => {
                let delay = before_alter.mul_f64(rng.f64());
                sleep_until(first.at + delay);
                format!("{delay:.1?} after the start")
            }
            _ => {
                let delay = self.options.scale.latest_kill.mul_f64(rng.f64());
                if let Some(altering) = observer.altering() {
                    before_alter = altering - first.at;
                    sleep_until(altering + delay);
                    if !self.options.is_timed {
                        app.wait_until_recorded();
                    }
                }
                format!("{delay:.1?} after the start of the ALTER")
            }
        };
        let holder = &mut replicas[first.replica].1;
        let was_over = holder.is_over();
        let pid = holder.pid();
        let killed = observer.kill(|| kill(kind, pid, self.server.port()));
        wait_for_end(&mut replicas[first.replica..=first.replica], killed);
        if !was_over && replicas[first.replica].1.is_over() {
            replicas.push((Fate::Restarted, start(REPLICAS)));
        }
        wait_for_end(&mut replicas, killed);
        let next = observer.finish();
        self.before_alter = before_alter;
        let replicas = results(replicas);
        let mut schema = self.differences(&app);
        if was_over {
            schema.push("the holder ended before the kill".to_owned());
        }
        app.end_sessions();
        Round {
            kind,
            moment,
            next,
            replicas,
            schema,
            allowed: kind.allowed(self.options.scale.ttl),
        }
    }

    /// Puts the project and the program under test into the folder of the round.
    fn install(&self, stage: &Stage) {
        for folder in ["bin", "project"] {
            fs::create_dir(stage.path(folder)).expect("the folder is new");
        }
        symlink(&self.options.dlock, stage.path("bin/dlock")).expect("the folder is writable");
        self.tool.install(&self.programs, &stage.path("project"));
    }

    /// Returns replica number `replica` of the release v1.
    fn replica(
        &self,
        app: &AppDatabase,
        stage: &Stage,
        observer: &Observer,
        replica: usize,
    ) -> Dlock {
        let begin = std::env::current_exe().expect("the path of this program is known");
        let path = [stage.path("bin"), self.programs.clone()];
        let path = path.each_ref().map(|folder| folder.display().to_string());
        let (database, ttl) = (&app.dlock, self.options.scale.ttl.as_secs());
        let ttl = format!("{ttl}s");
        let shell = Dlock::of(Path::new("/usr/bin/env"), ["-C"])
            .arg(stage.path("project"))
            .args(["sh", "-c"])
            .arg(self.tool.recipe(&format!("\"$BEGIN\" {BEGIN}")))
            .env("BEGIN", begin)
            .env("PATH", format!("{}:/usr/bin:/bin", path.join(":")))
            .env("HOME", stage.path(""))
            .env("NPM_CONFIG_UPDATE_NOTIFIER", "false")
            .env("DLOCK_OPT_TTL", ttl)
            .env("DB_HOST", "127.0.0.1")
            .env("DB_PORT", database.port.to_string())
            .env("DB_USER", &database.user)
            .env("DB_PASSWORD", &database.password)
            .env("DB_NAME", &app.name)
            .env("INSERT_PLANS", insert_plans(self.options.scale.rows))
            .env(ADD_CURRENCY, &self.add_currency)
            .env(ADD_CURRENCY_FAST, add_currency(1))
            .env("TAG", "v1");
        observer.observed(shell, app, replica)
    }

    /// Returns the differences between the database and the result of one successful run.
    fn differences(&self, app: &AppDatabase) -> Vec<String> {
        let mut admin = app.admin();
        let mut differences = Vec::new();
        let progress = self.tool.progress(&mut admin, &app.name);
        if !progress.is_head(self.options.scale.rows) {
            differences.push(format!("the schema is not at its head: {progress:?}"));
        }
        if progress.has_currency {
            let wrong = "SELECT COUNT(*) FROM plans \
                WHERE currency <> 'EUR' OR price_cents <> 100 OR name NOT LIKE 'plan %'";
            let wrong: Option<u32> = admin.first(wrong);
            if wrong != Some(0) {
                differences.push(format!("{wrong:?} rows are wrong"));
            }
        }
        let history = Dlock::of(&self.options.dlock, ["history", self.tool.name])
            .env("DLOCK_URL", app.dlock.url())
            .run();
        let successes = history.stdout.matches("exit 0").count();
        if successes != 1 {
            differences.push(format!("{successes} runs have succeeded"));
        }
        differences
    }
}

pub(crate) fn sleep_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// Waits until all `replicas` have ended, or [`MAX_ROUND`] has passed since the kill.
pub(crate) fn wait_for_end(replicas: &mut [(Fate, Running)], killed: Instant) {
    while killed.elapsed() < MAX_ROUND && !replicas.iter_mut().all(|(_, it)| it.is_over()) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the ends of the replicas. A replica that still runs is killed.
pub(crate) fn results(replicas: Vec<(Fate, Running)>) -> Vec<Replica> {
    let result = |(fate, mut running): (Fate, Running)| {
        let has_ended = running.is_over();
        let (status, stderr) = match has_ended {
            true => {
                let outcome = running.wait();
                (outcome.status, outcome.stderr)
            }
            false => (None, running.stderr_so_far()),
        };
        Replica {
            fate,
            status,
            has_ended,
            stderr,
        }
    };
    replicas.into_iter().map(result).collect()
}
