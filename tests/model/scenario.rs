//! Runs the text scenarios in `tests/scenarios`. Each line without an indent is an event, and the indented lines below it
//! say what follows from it. To write the indented lines again: `DLOCK_UPDATE=1 make model`. With the line `# a: --shared`,
//! `a` accepts others, and `b` does not.
//!
//! After each event, everything that can happen without a fault happens, first for `a`, then for `b`. A tick is six
//! seconds, a lease lasts four ticks, and a holder renews in each tick.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use dlock::lease::limit::Limit;
use dlock::store::FailureKind;
use dlock::store::session::SessionPolicy;
use stateright::Model;

use crate::client::{Client, Command, Parent};
use crate::mutation::{LostWrites, Run};
use crate::trace;
use crate::world::{Event, World};

const NAMES: [&str; 2] = ["a", "b"];

/// A run in which everything is allowed.
const RUN: Run = Run {
    horizon: 100,
    processes: [9, 9],
    faults: 99,
    revocations: 9,
    statements: 9,
    lost_writes: LostWrites::FailOver,
    policies: [SessionPolicy::Kill; 2],
    ..Run::sound()
};

struct Scenario {
    run: Run,
    world: World,
    /// True if the response to the next request of the client is lost.
    loses_response: [bool; 2],
    output: String,
}

impl Scenario {
    fn apply(&mut self, c: usize, event: Event) {
        // The search for due events has also tried some.
        trace::take();
        let before = self.world.clone();
        self.world = self
            .run
            .next_state(&before, event)
            .expect("the event is possible");
        for line in trace::take() {
            writeln!(self.output, "  {}: {line}", NAMES[c]).expect("a string");
        }
        for (c, name) in NAMES.iter().enumerate() {
            let (old, new) = (&before.clients[c], &self.world.clients[c]);
            let mut say = |text: &str| writeln!(self.output, "  {name}: {text}").expect("a string");
            match (old.command, new.command) {
                (old, new) if old == new => {}
                (_, Command::Running) => say("the command starts"),
                (_, Command::Dying) => say("the command is killed"),
                (Command::Dying, Command::Ended) => say("the command is dead"),
                _ => {}
            }
            if old.parent != new.parent && matches!(new.parent, Parent::Ended { .. }) {
                say("dlock has ended");
            }
        }
    }

    /// Lets everything happen that can happen without a fault.
    fn settle(&mut self) {
        while let Some((c, event)) = self.due() {
            match (event, self.loses_response[c]) {
                (Event::Execute(_), true) => {
                    self.loses_response[c] = false;
                    self.apply(c, Event::ReturnError(c, FailureKind::Unknown));
                }
                _ => self.apply(c, event),
            }
        }
    }

    /// Returns the next event that is not a fault.
    fn due(&self) -> Option<(usize, Event)> {
        let mut events = Vec::new();
        self.run.actions(&self.world, &mut events);
        let by_client = |c: usize| {
            let is_due = |event: &&Event| {
                let client = &self.world.clients[c];
                match **event {
                    Event::Act(of)
                    | Event::StartCommand(of)
                    | Event::Read(of)
                    | Event::StepMonitor(of)
                    | Event::NoticeDrop(of) => of == c,
                    // The server waits as long as there is no room.
                    Event::Execute(of) => {
                        let pending = client.pending();
                        let waits = pending.is_some_and(|it| it.waits_for_room(self.world.now));
                        of == c && (!waits || self.world.server.holder_locks.is_empty())
                    }
                    Event::FailRequest(of) => {
                        of == c && client.connection.as_ref().is_some_and(|it| !it.alive)
                    }
                    _ => false,
                }
            };
            events.iter().find(is_due).map(|event| (c, *event))
        };
        by_client(0).or_else(|| by_client(1))
    }

    fn line(&mut self, line: &str) {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        // An article may follow the name of the client.
        let name = words.iter().position(|word| NAMES.contains(word));
        let name = name.map(|at| std::mem::replace(&mut words[at], "X"));
        let c = NAMES.iter().position(|it| Some(*it) == name).unwrap_or(0);
        let event = match words.join(" ").as_str() {
            "start X" => Event::StartProcess(c),
            "tick" => Event::Tick,
            "command of X exits 0" => Event::EndCommand(c),
            "command of X fails" => Event::FailCommand(c),
            "command of X starts a statement" => Event::StartStatement(c),
            "kill dlock of X" => Event::KillParent(c),
            "machine of X fails" => Event::FailMachine(c),
            "freeze dlock of X" => Event::Pause(c),
            "thaw dlock of X" => Event::Resume(c),
            "cut connection of X" => Event::BreakConnection(c),
            "server ends the idle session of X" => Event::EndIdleSession(c),
            "X gives up" => Event::GiveUp(c),
            "operator releases" => Event::Revoke,
            "replica stops following" => Event::Backup,
            "replica replaces the server" => Event::LoseWrites,
            "server restarts" => Event::Restart,
            "lose the next response to X" => {
                self.loses_response[c] = true;
                return self.settle();
            }
            _ => panic!("unknown line: {line}"),
        };
        self.apply(c, event);
        self.settle();
    }
}

/// Returns the scenario `text` with the lines that follow from its events.
fn played(text: &str) -> String {
    trace::start();
    let run = Run {
        limits: match text.contains("\n# a: --shared\n") {
            true => [Limit::NONE, Limit::ONE],
            false => RUN.limits,
        },
        ..RUN
    };
    let mut scenario = Scenario {
        world: run.init_states().remove(0),
        run,
        loses_response: [false; 2],
        output: String::new(),
    };
    // The model starts with a process of client 0.
    scenario.world.clients[0] = Client::new(0);
    for line in text.lines().filter(|line| !line.starts_with("  ")) {
        scenario.output.push_str(line);
        scenario.output.push('\n');
        if !line.is_empty() && !line.starts_with('#') {
            scenario.line(line);
        }
    }
    scenario.output
}

#[test]
fn each_scenario_has_the_result_that_its_file_says() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let files = fs::read_dir(folder).expect("the folder exists");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).expect("the file can be read");
        let output = played(&text);
        if std::env::var_os("DLOCK_UPDATE").is_some() {
            fs::write(&file, &output).expect("the file can be written");
        }
        let expected = fs::read_to_string(&file).expect("the file can be read");
        assert_eq!(output, expected, "{}", file.display());
    }
}
