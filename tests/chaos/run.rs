//! One chaos run on one flavour, from the start of its servers to the last line of its history.

use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::contender::contend;
use crate::fault_kind::FaultKind;
use crate::history::{Event, micros, now, read};
use crate::nemesis::{self, Nemesis};
use crate::options::Options;
use crate::probe;
use crate::processes::{marked, send};
use crate::run_context::RunContext;
use crate::servers::Flavour;
use crate::store::Store;
use crate::testbed::{Purpose, Running};
use crate::timeline::Timeline;

/// Time in which all contenders must be served after the faults: about ten times what the longest queue needs.
const SERVICE: Duration = Duration::from_secs(90);

/// Time in which all processes must end after the run.
const LEAVING: Duration = Duration::from_secs(3);

/// Interval at which the runner checks for remaining processes.
const PULSE: Duration = Duration::from_millis(50);

/// Interval at which the runner checks whether all contenders are served.
const LOOK: Duration = Duration::from_millis(250);

/// Runs the chaos run and returns its timeline.
pub(crate) fn run(flavour: Flavour, options: &Options, folder: &Path) -> Timeline {
    let context = RunContext::new(options.seed, folder, &options.dlock)
        .expect("the folder can be written to");
    context.journal.note(Event::Began {
        seed: options.seed,
        flavour: flavour.to_string(),
        seconds: options.seconds,
    });
    let mut sites: Vec<Running> = Purpose::ALL
        .map(|purpose| Running::start(&context, flavour, purpose))
        .into();
    let actions: Vec<String> = sites
        .iter()
        .flat_map(|running| running.site.actions.clone())
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| context.live_runs.follow(&context.folder));
        scope.spawn(|| context.tree_watcher.work(&context.journal));
        scope.spawn(|| probe::machine(&context));
        thread::scope(|scope| {
            let mut crew = Crew::default();
            for running in &mut sites {
                start(scope, &context, running, &options.only, &mut crew);
            }
            context
                .fault_phase
                .pause(Duration::from_secs(options.seconds));
            context.fault_phase.abate();
            // Even if a nemesis panicked, the contenders must be allowed to end.
            let ends = crew.nemeses.drain(..).map(ScopedJoinHandle::join);
            let failed = ends.filter(Result::is_err).count();
            context.journal.note(Event::Quiet);
            context.fault_phase.quiet();
            let end = Instant::now() + SERVICE;
            while Instant::now() < end && !crew.is_served() {
                thread::sleep(LOOK);
            }
            end_all(&context);
            context.live_runs.close();
            assert_eq!(failed, 0, "nemeses that panicked");
        });
        context.tree_watcher.close();
    });
    for action in actions {
        let store = context.folder.join("store").join(&action);
        let stored = Store::open(&store).and_then(|mut store| store.content());
        let stored = stored.expect("the store can be read");
        context.journal.note(Event::Counter {
            action,
            count: stored.count,
            highest: stored.highest,
        });
    }
    context.tidy().expect("a folder can be removed");
    Timeline::of(read(&context.folder).expect("the history can be read"))
}

/// The threads of a run.
#[derive(Default)]
struct Crew<'scope> {
    nemeses: Vec<ScopedJoinHandle<'scope, ()>>,
    contenders: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl Crew<'_> {
    /// Returns true if all contenders have finished. The absence of their processes would not be enough: on a busy
    /// machine their last run may not have been started yet.
    fn is_served(&self) -> bool {
        self.contenders.iter().all(ScopedJoinHandle::is_finished)
    }
}

/// Starts the contenders and the nemeses of a site.
fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    context: &'scope RunContext,
    running: &'scope mut Running,
    only: &'scope [FaultKind],
    crew: &mut Crew<'scope>,
) {
    let wanted = |mut kinds: Vec<FaultKind>| {
        kinds.retain(|kind| only.is_empty() || only.contains(kind));
        kinds
    };
    let Running {
        site,
        server,
        clock,
    } = running;
    let (site, purpose) = (&*site, site.purpose);
    for action in &site.actions {
        for slot in 0..purpose.contenders() {
            let contender = scope.spawn(move || contend(context, site, action, slot));
            crew.contenders.push(contender);
        }
        let kinds = wanted(purpose.kinds());
        let action = action.clone();
        let one = Nemesis {
            context,
            site,
            action,
        };
        crew.nemeses.push(scope.spawn(move || one.rage(&kinds)));
    }
    scope.spawn(move || probe::server(context, site));
    let kinds = wanted(purpose.site_kinds());
    crew.nemeses.push(match clock {
        Some(clock) => scope.spawn(move || clock.rage(context, site, &kinds)),
        None => scope.spawn(move || nemesis::rage(context, site, server, &kinds)),
    });
}

/// Waits for all processes to end, then records and kills those that remain.
fn end_all(context: &RunContext) {
    context.journal.note(Event::Overdue);
    let end = now() + micros(LEAVING);
    let mut noted = Vec::new();
    loop {
        let left = marked(&context.mark);
        if left.is_empty() {
            return;
        }
        for process in left {
            if now() < end {
                continue;
            }
            if !noted.contains(&process.pid) {
                noted.push(process.pid);
                let (pid, words) = (process.pid, process.words);
                context.journal.note(Event::Orphan { pid, words });
            }
            send(process.pid, &context.mark, Signal::KILL);
        }
        thread::sleep(PULSE);
    }
}
