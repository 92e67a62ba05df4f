//! The output of a hold: the events or the commands for a shell, and the state file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::process;
use std::time::Duration;

use serde_json::{Map, Value};

use super::events::{EventWriter, HoldEvent};
use super::front;
use super::state_file::StateFile;
use crate::cli::words;
use crate::commands::exec::plan::RunPlan;
use crate::commands::outer;
use crate::lease::Grant;
use crate::lease::instant::{BootInstant, Deadline};
use crate::report::format::json_line;
use crate::report::messages;
use crate::store::LockRecord;
use crate::sys::notify;

/// Version of the events.
const FORMAT: u8 = 1;

/// The reader of the output.
pub(super) enum Output {
    /// A program that reads events.
    Events(EventWriter),
    /// The dlock in a shell, which reads commands and then the end of the pipe. A write must not block. None after the
    /// grant.
    Shell(Option<File>),
}

/// The output and the state file of a hold.
pub(super) struct Publication<'a> {
    plan: &'a RunPlan,
    output: Output,
    file: Option<StateFile>,
    /// The content of the file, without the instants. Empty before the grant.
    state: Map<String, Value>,
    /// The variables for processes that run under the lease, without the tokens.
    variables: Vec<(&'static str, String)>,
}

impl<'a> Publication<'a> {
    /// Creates the publication of a hold of `plan` before the grant.
    pub(super) fn new(
        plan: &'a RunPlan,
        output: Output,
        file: Option<StateFile>,
        variables: Vec<(&'static str, String)>,
    ) -> Self {
        Self {
            plan,
            output,
            file,
            state: Map::new(),
            variables,
        }
    }

    /// Writes `event` for a program. A shell gets nothing but the grant. Returns false if the shell cannot get it.
    pub(super) fn write(&mut self, event: &HoldEvent) -> bool {
        match (&mut self.output, event) {
            (Output::Events(writer), event) => writer.write(event),
            (Output::Shell(pipe), HoldEvent::Granted { env, .. }) => {
                let mut text = shell_commands(env).into_bytes();
                text.push(front::END);
                let pipe = pipe.take();
                // The reader refuses an incomplete text.
                return pipe.is_some_and(|mut pipe| pipe.write_all(&text).is_ok());
            }
            (Output::Shell(_), _) => {}
        }
        true
    }

    /// Publishes that the lock is held by others.
    pub(super) fn waiting(&mut self, record: &LockRecord, ahead: u64, waited: Duration) {
        let holder = messages::whose(record);
        let token = record.main_lease().version.token.0;
        self.write(&HoldEvent::Waiting {
            holder,
            token: holder.map(|_| token),
            ahead,
            waited_ms: millis(waited),
        });
    }

    /// Publishes that the lock is held. Returns false if a shell cannot get the grant, because the dlock in it is dead.
    pub(super) fn granted(
        &mut self,
        deadline: Deadline,
        grants: &[Grant],
        waited: Duration,
    ) -> bool {
        let first = grants[0];
        let names = self.plan.contenders.iter().map(|it| &it.action);
        let leases = names.zip(grants);
        let lines = (leases.clone()).map(|(name, grant)| format!("{name}={}", grant.token));
        let lines = lines.collect::<Vec<_>>().join("\n");
        let tokens = [
            ("DLOCK_TOKEN", first.token.to_string()),
            ("DLOCK_SLOT", first.slot.to_string()),
            (outer::HOLD_PID, process::id().to_string()),
            ("DLOCK_TOKENS", lines),
        ];
        let env = self.variables.iter().cloned().chain(tokens);
        let env: Map<_, _> = env
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect();
        let tokens: Map<_, _> = leases
            .map(|(name, grant)| (name.to_string(), Value::from(grant.token.0)))
            .collect();
        let is_told = self.write(&HoldEvent::Granted {
            format: FORMAT,
            action: self.plan.first().action.as_str(),
            token: first.token.0,
            slot: first.slot,
            tokens: &tokens,
            holder: &self.plan.first().holder.label,
            waited_ms: millis(waited),
            stop_at_ms: boot_millis(deadline.term),
            deadline_ms: boot_millis(deadline.kill),
            env: &env,
        });
        self.state = [
            ("action", Value::from(self.plan.first().action.as_str())),
            ("token", Value::from(first.token.0)),
            ("slot", Value::from(first.slot)),
            ("holder", Value::from(&*self.plan.first().holder.label)),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
        self.show(deadline);
        self.notify("READY=1");
        is_told
    }

    /// Sends `state` to a service manager, unless the hold is for a process that has its own state.
    fn notify(&self, state: &str) {
        if matches!(self.output, Output::Events(_)) {
            notify::send(state);
        }
    }

    /// Publishes the deadline of a renewal.
    pub(super) fn renewed(&mut self, deadline: Deadline) {
        self.show(deadline);
        self.write(&HoldEvent::Renewed {
            stop_at_ms: boot_millis(deadline.term),
            deadline_ms: boot_millis(deadline.kill),
        });
    }

    /// Writes the state to the file, with the published deadline.
    fn show(&mut self, deadline: Deadline) {
        let Some(file) = &self.file else {
            return;
        };
        let instants = [
            ("stop_at_ms", deadline.term),
            ("deadline_ms", deadline.kill),
        ];
        for (name, instant) in instants {
            let value = Value::from(boot_millis(instant));
            self.state.insert(name.to_owned(), value);
        }
        // The values have no type that cannot be written.
        file.write(json_line(&self.state).unwrap_or_default());
    }

    /// Removes the state file.
    pub(super) fn remove_file(&self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }

    /// Publishes the end of the hold, and waits a short time until everything is written. `is_released` is true if the server
    /// has confirmed the release.
    pub(super) fn close(&mut self, is_released: bool) {
        self.notify("STOPPING=1");
        if is_released {
            self.write(&HoldEvent::Released {});
        }
        self.remove_file();
        if let Output::Events(writer) = &mut self.output {
            writer.close();
        }
        if let Some(file) = &self.file {
            file.wait_for_removal();
        }
    }
}

/// Returns one shell command that sets and exports the variables in `env`.
fn shell_commands(env: &Map<String, Value>) -> String {
    let variables = env.iter().map(|(name, value)| {
        let value = value.as_str().unwrap_or_default();
        format!(" {name}={}", words::quoted(OsStr::new(value)))
    });
    format!("export{}\n", variables.collect::<String>())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns `instant` in whole milliseconds of `CLOCK_BOOTTIME`, rounded down.
fn boot_millis(instant: BootInstant) -> u64 {
    millis(instant.since_boot())
}
