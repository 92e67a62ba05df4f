//! Runs a round. Many replicas start together with a task that must succeed exactly once. All processes of the first
//! holder are killed when its command is half done, and other replicas are stopped while they wait.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use testkit::cli_runner::{Dlock, Running, eventually};
use testkit::command::{Stage, read_message};
use testkit::servers::Database;

use crate::checks::{End, Replica, Round, SignalSent};
use crate::options::Options;

pub(crate) const REPLICAS: usize = 30;

/// Number of replicas that are stopped. The killed replica is not included.
pub(crate) const STOPS: usize = 5;

/// Run time of the command, which runs `sleep 0.5` twice. This time does not include delays on a busy machine.
const RUN_TIME: Duration = Duration::from_secs(1);

/// Time that dlock may take in addition to the ttl and the command's run time.
const MAX_DELAY: Duration = Duration::from_secs(2);

/// Time for which the round still waits for replicas after the allowed time.
const EXTRA_WAIT: Duration = Duration::from_mins(1);

/// The command. `$1` is the folder of the round. Its process tree keeps the witness file locked. The first command that
/// is half done reports its progress and blocks, so its replica is always killed at this point, even on a busy machine.
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
    /// Time from the kill to the SIGTERM.
    at: Duration,
}

/// Runs round `number`. The number is also the version in `--once`.
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
    let first: usize = read_message(&half_way).parse().expect("a replica's number");
    let first = first - 1;
    let mut fates = vec![SignalSent::NoSignal; REPLICAS];
    fates[first] = SignalSent::Killed;
    let mut rng = Rng::with_seed(options.seed ^ u64::from(number));
    let mut stops = stops(&mut rng, options.ttl, first);
    let mut ends: Vec<Option<Duration>> = vec![None; REPLICAS];
    let allowed = options.ttl + MAX_DELAY + RUN_TIME;
    // The lease is renewed every sixth of the ttl, so the kill can happen at any time between two renewals.
    thread::sleep(options.ttl.mul_f64(rng.f64() / 3.0));
    let killed = Instant::now();
    replicas[first].crash();
    eventually("all replicas have ended", || {
        for (replica, end) in replicas.iter_mut().zip(&mut ends) {
            if end.is_none() && replica.is_over() {
                *end = Some(killed.elapsed());
            }
        }
        for Stop { replica, .. } in stops.extract_if(.., |stop| stop.at <= killed.elapsed()) {
            if ends[replica].is_none() {
                fates[replica] = SignalSent::Stopped;
                replicas[replica].signal("TERM");
            }
        }
        ends.iter().all(Option::is_some) || killed.elapsed() > allowed + EXTRA_WAIT
    });
    let replicas = replicas.into_iter().zip(fates).zip(ends);
    let replicas = replicas.map(|((replica, fate), end)| result(replica, fate, end));
    Round {
        replicas: replicas.collect(),
        written: written(&stage),
        stops: STOPS,
        allowed,
    }
}

/// Chooses the replicas to stop, and the times. All times are before the lease of the killed replica expires, so the
/// replicas still wait.
fn stops(rng: &mut Rng, ttl: Duration, first: usize) -> Vec<Stop> {
    let others = (0..REPLICAS).filter(|replica| *replica != first);
    let chosen = rng.choose_multiple(others, STOPS);
    let stop = |replica| Stop {
        replica,
        at: ttl.mul_f64(rng.f64() / 2.0),
    };
    chosen.into_iter().map(stop).collect()
}

fn result(replica: Running, fate: SignalSent, end: Option<Duration>) -> Replica {
    let Some(after) = end else {
        let stderr = replica.stderr_so_far();
        return Replica {
            fate,
            end: None,
            stderr,
        };
    };
    let outcome = replica.wait();
    let status = outcome.status;
    Replica {
        fate,
        end: Some(End { status, after }),
        stderr: outcome.stderr,
    }
}

/// Returns the lines that the commands have written in the folder of `stage`.
pub(crate) fn written(stage: &Stage) -> Vec<String> {
    let text = fs::read_to_string(stage.path("written")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
