//! A round: replicas start at once with a task that must succeed once. The first holder is killed half-way, and other
//! replicas are stopped while they wait.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::checks::{End, Fate, Replica, Round};
use crate::cli_runner::{Dlock, Running, eventually};
use crate::command::{Stage, heard};
use crate::options::Options;
use crate::servers::Database;

pub(crate) const REPLICAS: usize = 30;

/// Number of replicas that are stopped, besides the one that is killed.
pub(crate) const STOPS: usize = 5;

/// Run time of the command: twice `sleep 0.5`. Any delay by a busy machine counts against dlock.
const OWN: Duration = Duration::from_secs(1);

/// Promised maximum time beyond the ttl and the run time of the command.
const PROMPT: Duration = Duration::from_secs(2);

/// Time after the promised one for which the round still waits for replicas.
const PATIENCE: Duration = Duration::from_mins(1);

/// The command; `$1` is the round's folder. Its whole process tree keeps the witness file locked. The first command to
/// get half-way reports it and blocks there, so that it is killed at this point even on a busy machine.
const MIGRATE: &str = r#"
    cd "$1"
    exec 9>>witness
    flock -n 9 || { echo "not-alone $REPLICA" >> written; exit 99; }
    echo "began $REPLICA" >> written
    sleep 0.5
    if mkdir first 2>/dev/null; then
        echo "$REPLICA" > half-way
        read word < never
    fi
    sleep 0.5
    echo "done $REPLICA" >> written
"#;

/// A SIGTERM that is planned.
struct Stop {
    replica: usize,
    /// Time after the kill.
    at: Duration,
}

/// Runs round `number`, as the rollout of a new version with this number.
pub(crate) fn round(database: &Database, options: &Options, number: u32) -> Round {
    let stage = Stage::new();
    let half_way = stage.fifo("half-way");
    stage.fifo("never");
    let mut replicas: Vec<Running> = (1..=REPLICAS)
        .map(|replica| {
            Dlock::on(database, ["exec", "--action", "init"])
                .arg(format!("--once=v{number}"))
                .arg(format!("--ttl={}s", options.ttl.as_secs()))
                .args(["--", "sh", "-c", MIGRATE, "sh"])
                .arg(stage.path(""))
                .env("REPLICA", replica.to_string())
                .start()
        })
        .collect();
    let first: usize = heard(&half_way).parse().expect("a replica's number");
    let first = first - 1;
    let mut fates = vec![Fate::LetAlone; REPLICAS];
    fates[first] = Fate::Killed;
    let mut dice = Rng::with_seed(options.seed ^ u64::from(number));
    let mut stops = stops(&mut dice, options.ttl, first);
    let mut ends: Vec<Option<Duration>> = vec![None; REPLICAS];
    let allowed = options.ttl + PROMPT + OWN;
    // The lease is renewed every sixth of the ttl, so the kill comes at any time between two renewals.
    thread::sleep(options.ttl.mul_f64(dice.f64() / 3.0));
    let killed = Instant::now();
    replicas[first].signal("KILL");
    eventually("all replicas have ended", || {
        for (replica, end) in replicas.iter_mut().zip(&mut ends) {
            if end.is_none() && replica.is_over() {
                *end = Some(killed.elapsed());
            }
        }
        for Stop { replica, .. } in stops.extract_if(.., |stop| stop.at <= killed.elapsed()) {
            if ends[replica].is_none() {
                fates[replica] = Fate::Stopped;
                replicas[replica].signal("TERM");
            }
        }
        ends.iter().all(Option::is_some) || killed.elapsed() > allowed + PATIENCE
    });
    let replicas = replicas.into_iter().zip(fates).zip(ends);
    let replicas = replicas.map(|((replica, fate), end)| conclude(replica, fate, end));
    Round {
        replicas: replicas.collect(),
        written: written(&stage),
        stops: STOPS,
        allowed,
    }
}

/// Chooses the replicas to stop, and when: before the lease of the killed replica expires, so while they wait.
fn stops(dice: &mut Rng, ttl: Duration, first: usize) -> Vec<Stop> {
    let others = (0..REPLICAS).filter(|replica| *replica != first);
    let chosen = dice.choose_multiple(others, STOPS);
    let stop = |replica| Stop {
        replica,
        at: ttl.mul_f64(dice.f64() / 2.0),
    };
    chosen.into_iter().map(stop).collect()
}

fn conclude(replica: Running, fate: Fate, end: Option<Duration>) -> Replica {
    let Some(after) = end else {
        let said = replica.said();
        return Replica {
            fate,
            end: None,
            said,
        };
    };
    let outcome = replica.wait();
    let status = outcome.status;
    Replica {
        fate,
        end: Some(End { status, after }),
        said: outcome.stderr,
    }
}

/// Returns the lines that the commands have written in the folder of `stage`.
pub(crate) fn written(stage: &Stage) -> Vec<String> {
    let text = fs::read_to_string(stage.path("written")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
