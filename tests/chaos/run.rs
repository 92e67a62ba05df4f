//! Executes a chaos run on one topology, from the start of the servers to the last line of the history.

use std::path::Path;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bystander::run_bystander;
use crate::contender::run_contender;
use crate::fault_kind::FaultKind;
use crate::history::{Event, micros, now, read};
use crate::nemesis::{Nemesis, inject_site_faults};
use crate::options::Options;
use crate::probe;
use crate::processes::{marked, send};
use crate::run_context::RunContext;
use crate::store::Store;
use crate::testbed::Running;
use crate::timeline::Timeline;
use crate::topology::Topology;

/// Maximum time after the faults until all contenders are served. The longest queue needs about a tenth of this time.
const SERVICE_TIME: Duration = Duration::from_secs(90);

/// Maximum time until all processes have ended, after all contenders are served or [`SERVICE_TIME`] has passed.
const EXIT_TIME: Duration = Duration::from_secs(3);

/// Interval at which the runner checks for remaining processes.
const PROCESS_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Interval at which the runner checks whether all contenders are served.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Executes the chaos run, and returns its timeline.
pub(crate) fn run(topology: Topology, seconds: u64, options: &Options, folder: &Path) -> Timeline {
    let context = RunContext::new(options.seed, folder, &options.dlock)
        .expect("the folder can be written to");
    context.journal.record(Event::Began {
        seed: options.seed,
        flavour: topology.to_string(),
        seconds,
    });
    let mut sites: Vec<Running> = (topology.purposes().iter())
        .map(|purpose| Running::start(&context, topology, *purpose))
        .collect();
    let actions = sites.iter().map(|running| running.site.actions.clone());
    let actions: Vec<String> = actions.flatten().collect();
    thread::scope(|scope| {
        scope.spawn(|| context.live_runs.follow(&context.folder));
        scope.spawn(|| probe::machine(&context));
        thread::scope(|scope| {
            let (mut nemeses, mut contenders) = (Vec::new(), Vec::new());
            for running in &mut sites {
                let threads = start(scope, &context, running, &options.only);
                nemeses.extend(threads.0);
                contenders.extend(threads.1);
            }
            context.fault_phase.pause(Duration::from_secs(seconds));
            context.fault_phase.end_faults();
            // The contenders must be able to end even if a nemesis has panicked.
            let ends = nemeses.into_iter().map(ScopedJoinHandle::join);
            let failed = ends.filter(Result::is_err).count();
            context.journal.record(Event::Quiet);
            context.fault_phase.start_quiet();
            // Checking only that no process remains would not be enough, because on a busy machine the last run may not
            // have started.
            let end = Instant::now() + SERVICE_TIME;
            while Instant::now() < end && !contenders.iter().all(ScopedJoinHandle::is_finished) {
                thread::sleep(POLL_INTERVAL);
            }
            end_all(&context);
            context.live_runs.close();
            assert_eq!(failed, 0, "number of nemeses that panicked");
        });
    });
    for action in actions {
        let store = context.folder.join("store").join(&action);
        let count = Store::open(&store).and_then(|mut store| store.count());
        let count = count.expect("the store can be read");
        let counter = Event::Counter { count };
        context.journal.record_of(None, &*action, counter);
    }
    context.remove_programs().expect("a folder can be removed");
    Timeline::of(read(&context.folder).expect("the history can be read"))
}

/// Threads of one kind.
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
            contenders.push(scope.spawn(move || run_contender(context, site, action, slot)));
        }
        let kinds = wanted(purpose.kinds());
        let action = Some(action.as_str());
        let of_action = Nemesis {
            context,
            site,
            action,
        };
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
