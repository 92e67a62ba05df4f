//! Executes a chaos run on one topology, from the start of the servers to the last line of the history.

use std::fs::{self, File};
use std::path::Path;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::arguments::concurrently;

use crate::bystander::run_bystander;
use crate::contender::Contender;
use crate::fault_kind::FaultKind;
use crate::history::{Event, micros, now, read};
use crate::live_runs::Phase;
use crate::nemesis::{Nemesis, inject_site_faults};
use crate::options::Options;
use crate::probe;
use crate::processes::{marked, send};
use crate::run_context::RunContext;
use crate::store::Store;
use crate::testbed::{Purpose, Running};
use crate::timeline::Timeline;
use crate::topology::Topology;
use crate::work::QUIET;

/// Maximum time after the faults until all contenders are served. The longest queue needs about a tenth of this time.
const SERVICE_TIME: Duration = Duration::from_secs(90);

/// Maximum time until all processes have ended, after all contenders are served or [`SERVICE_TIME`] has passed.
const EXIT_TIME: Duration = Duration::from_secs(3);

const PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(50);

const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) fn run(topology: Topology, seconds: u64, options: &Options, folder: &Path) -> Timeline {
    let context = RunContext::new(options.seed, folder, &options.dlock)
        .expect("the folder can be written to");
    // A server with a fake clock starts slowly, so it starts beside the others.
    let (first, others) = topology.purposes().split_at(1);
    let start_all = |group: &[Purpose]| -> Vec<Running> {
        let group = group.iter();
        group
            .map(|it| Running::start(&context, topology, *it))
            .collect()
    };
    let sites = concurrently([first, others], start_all).into_iter();
    let sites = sites.flat_map(|sites| sites.expect("the servers start"));
    let mut sites: Vec<Running> = sites.collect();
    let actions = sites.iter().map(|running| running.site.actions.clone());
    let actions: Vec<String> = actions.flatten().collect();
    thread::scope(|scope| {
        scope.spawn(|| context.live_runs.follow(&context.folder));
        scope.spawn(|| probe::machine(&context));
        let (mut nemeses, mut contenders) = (Vec::new(), Vec::new());
        for running in &mut sites {
            let threads = start(scope, &context, running, &options.only);
            nemeses.extend(threads.0);
            contenders.extend(threads.1);
        }
        context.live_runs.pause(Duration::from_secs(seconds));
        context.live_runs.begin(Phase::Draining);
        // The contenders must be able to end even if a nemesis has panicked.
        let ends = nemeses.into_iter().map(ScopedJoinHandle::join);
        let failed = ends.filter(Result::is_err).count();
        context.journal.record(Event::Quiet);
        context.live_runs.begin(Phase::Quiet);
        File::create(context.folder.join(QUIET)).expect("a file can be created");
        // Checking only that no process remains would not be enough, because on a busy machine the last run may not
        // have started.
        let end = Instant::now() + SERVICE_TIME;
        while Instant::now() < end && !contenders.iter().all(ScopedJoinHandle::is_finished) {
            thread::sleep(POLL_INTERVAL);
        }
        end_all(&context);
        context.live_runs.begin(Phase::Closed);
        assert_eq!(failed, 0, "number of nemeses that panicked");
    });
    for action in actions {
        let store = Store::open(&context.folder.join("store").join(&action));
        let [count, _] = store.content();
        let counter = Event::Counter { count };
        context.journal.record_of(None, &action, counter);
    }
    fs::remove_dir_all(context.folder.join("programs")).expect("a folder can be removed");
    Timeline::of(read(&context.folder))
}

type Threads<'scope> = Vec<ScopedJoinHandle<'scope, ()>>;

/// Starts the nemeses and the contenders of a site, and returns their threads.
fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    context: &'scope RunContext,
    running: &'scope mut Running,
    only: &[FaultKind],
) -> (Threads<'scope>, Threads<'scope>) {
    let wanted = |mut kinds: Vec<FaultKind>| {
        kinds.retain(|kind| only.is_empty() || only.contains(kind));
        kinds
    };
    let Running { site, machines } = running;
    let (site, purpose) = (&*site, site.purpose);
    let (mut nemeses, mut contenders) = (Vec::new(), Vec::new());
    for action in &site.actions {
        for slot in 0..purpose.contenders() {
            let contender = Contender {
                context,
                site,
                action,
                slot,
            };
            contenders.push(scope.spawn(move || contender.work()));
        }
        let kinds = wanted(purpose.kinds());
        let of_action = Nemesis::new(context, site, Some(action));
        nemeses.push(scope.spawn(move || of_action.inject_faults(&kinds)));
    }
    let kinds = wanted(purpose.site_kinds());
    nemeses.push(scope.spawn(move || inject_site_faults(context, site, &mut **machines, &kinds)));
    if purpose.has_bystanders() {
        scope.spawn(move || run_bystander(context, site));
    }
    for database in &site.nodes {
        scope.spawn(move || probe::server(context, site, database));
    }
    (nemeses, contenders)
}

/// Waits for all processes to end. Records and kills the processes that still run after [`EXIT_TIME`].
fn end_all(context: &RunContext) {
    context.journal.record(Event::Overdue);
    let end = now() + micros(EXIT_TIME);
    let mut recorded = Vec::new();
    loop {
        let remaining = marked(&context.mark);
        if remaining.is_empty() {
            return;
        }
        for process in remaining {
            if now() < end {
                continue;
            }
            if !recorded.contains(&process.pid) {
                recorded.push(process.pid);
                let (pid, words) = (process.pid, process.words);
                context.journal.record(Event::Orphan { pid, words });
            }
            send(process.pid, &context.mark, Signal::KILL);
        }
        thread::sleep(PROCESS_POLL_INTERVAL);
    }
}
