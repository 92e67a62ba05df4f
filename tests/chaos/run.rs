//! One run on one flavour, from the start of its servers to its history's last line.

use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::contender::contend;
use crate::course::Course;
use crate::history::{Event, micros, now, read};
use crate::kind::Kind;
use crate::nemesis::{self, Nemesis};
use crate::options::Options;
use crate::probe;
use crate::processes::{marked, send};
use crate::servers::Flavour;
use crate::site::{Purpose, Running};
use crate::store::Store;
use crate::story::Story;

/// How long everybody has to be served when the faults are over: some ten times what the longest line needs.
const SERVICE: Duration = Duration::from_secs(90);

/// How long processes may need to be gone when all is over.
const LEAVING: Duration = Duration::from_secs(3);

/// How often to look whether processes are gone.
const PULSE: Duration = Duration::from_millis(50);

/// How often to look whether all are served.
const LOOK: Duration = Duration::from_millis(250);

/// Runs it and returns what happened.
pub(crate) fn run(flavour: Flavour, options: &Options, folder: &Path) -> Story {
    let course =
        Course::new(options.seed, folder, &options.dlock).expect("the folder can be written to");
    course.journal.note(Event::Began {
        seed: options.seed,
        flavour: flavour.to_string(),
        seconds: options.seconds,
    });
    let mut sites: Vec<Running> = Purpose::ALL
        .map(|purpose| Running::start(&course, flavour, purpose))
        .into();
    let actions: Vec<String> = sites
        .iter()
        .flat_map(|running| running.site.actions.clone())
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| course.board.follow(&course.folder));
        scope.spawn(|| course.undertaker.work(&course.journal));
        scope.spawn(|| probe::machine(&course));
        thread::scope(|scope| {
            let mut crew = Crew::default();
            for running in &mut sites {
                start(scope, &course, running, &options.only, &mut crew);
            }
            course.weather.pause(Duration::from_secs(options.seconds));
            course.weather.abate();
            // Whatever becomes of them, the contenders must be let go.
            let ends = crew.nemeses.drain(..).map(ScopedJoinHandle::join);
            let failed = ends.filter(Result::is_err).count();
            course.journal.note(Event::Calm);
            course.weather.calm();
            let end = Instant::now() + SERVICE;
            while Instant::now() < end && !crew.is_served() {
                thread::sleep(LOOK);
            }
            end_all(&course);
            course.board.close();
            assert_eq!(failed, 0, "nemeses that panicked");
        });
        course.undertaker.close();
    });
    for action in actions {
        let store = course.folder.join("store").join(&action);
        let content = Store::open(&store).and_then(|mut store| store.content());
        let content = content.expect("a store can be read");
        course.journal.note(Event::Counter {
            action,
            count: content.count,
            highest: content.highest,
        });
    }
    course.tidy().expect("a folder can be removed");
    Story::of(read(&course.folder).expect("the history can be read"))
}

/// The threads of a run.
#[derive(Default)]
struct Crew<'scope> {
    nemeses: Vec<ScopedJoinHandle<'scope, ()>>,
    contenders: Vec<ScopedJoinHandle<'scope, ()>>,
}

impl Crew<'_> {
    /// Whether all contenders are through. That there is no process of theirs would not tell: on a busy machine their
    /// last run may be yet to be started.
    fn is_served(&self) -> bool {
        self.contenders.iter().all(ScopedJoinHandle::is_finished)
    }
}

/// Starts the contenders and the nemeses of a site.
fn start<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    course: &'scope Course,
    running: &'scope mut Running,
    only: &'scope [Kind],
    crew: &mut Crew<'scope>,
) {
    let wanted = |mut kinds: Vec<Kind>| {
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
            let contender = scope.spawn(move || contend(course, site, action, slot));
            crew.contenders.push(contender);
        }
        let kinds = wanted(purpose.kinds());
        let action = action.clone();
        let one = Nemesis {
            course,
            site,
            action,
        };
        crew.nemeses.push(scope.spawn(move || one.rage(&kinds)));
    }
    scope.spawn(move || probe::server(course, site));
    let kinds = wanted(purpose.site_kinds());
    crew.nemeses.push(match clock {
        Some(clock) => scope.spawn(move || clock.rage(course, site, &kinds)),
        None => scope.spawn(move || nemesis::rage(course, site, server, &kinds)),
    });
}

/// Notes whoever is left, and ends them.
fn end_all(course: &Course) {
    course.journal.note(Event::Overdue);
    let end = now() + micros(LEAVING);
    let mut noted = Vec::new();
    loop {
        let left = marked(&course.mark);
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
                course.journal.note(Event::Orphan { pid, words });
            }
            send(process.pid, &course.mark, Signal::KILL);
        }
        thread::sleep(PULSE);
    }
}
