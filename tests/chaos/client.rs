//! A program that uses `dlock hold --json`. The program is this one in another mode. Its stdin is the stdout of dlock, and
//! its stdout is the stdin of dlock, so the end of the program releases the lock.
//!
//! The program obeys the rule of dlock-hold(1). Before each write, it checks that the clock is before `stop_at_ms`, and
//! that it has read neither `lost` nor the end of the events. Half of the programs are stubborn: if they have to stop, they
//! work on until `deadline_ms`. The witnesses are locked only during a write, because a frozen program may exist for longer
//! than its lease.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

use crate::history::{Event, Micros, StopCause, now};
use crate::readers::{deaf_file, wait_to_read};
use crate::schedule::Shape;
use crate::work::{Holder, Leases, read_arguments};

struct Lease {
    stop_at: Micros,
    deadline: Micros,
    /// Set if an event, or the end of the events, says that the program has to stop.
    told: Option<StopCause>,
}

impl Lease {
    fn apply(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("granted" | "renewed") => {
                self.stop_at = millis(event, "stop_at_ms");
                self.deadline = millis(event, "deadline_ms");
            }
            Some("lost" | "released") => {
                self.told.get_or_insert(StopCause::Lost);
            }
            _ => {}
        }
    }

    /// Returns the current time if the program may write now, or otherwise why not.
    fn check(&self, shape: Shape) -> Result<Micros, StopCause> {
        let at = now();
        let is_over = (at >= self.stop_at).then_some(StopCause::Clock);
        match self.told.or(is_over) {
            Some(cause) if shape != Shape::Stubborn || at >= self.deadline => Err(cause),
            _ => Ok(at),
        }
    }
}

fn millis(event: &Value, name: &str) -> Micros {
    event[name].as_u64().expect("a time in milliseconds") * 1_000
}

struct Events {
    reader: BufReader<File>,
    deaf_file: PathBuf,
}

impl Events {
    /// Returns the next event. None at the end.
    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        // A fault fills the pipe with empty lines.
        while line.trim_end().is_empty() {
            if self.reader.buffer().is_empty() {
                wait_to_read(&self.deaf_file, &AtomicBool::new(false));
            }
            line.clear();
            let length = self.reader.read_line(&mut line).expect("stdin is a pipe");
            if length == 0 {
                return None;
            }
        }
        Some(serde_json::from_str(&line).expect("each event is JSON"))
    }
}

pub(crate) fn run_client(arguments: &[String]) -> ! {
    let (folder, run, plan) = read_arguments(arguments);
    let stdin = io::stdin().as_fd().try_clone_to_owned();
    let mut events = Events {
        reader: BufReader::new(File::from(stdin.expect("a descriptor is available"))),
        deaf_file: deaf_file(&folder, run),
    };
    let granted = std::iter::from_fn(|| events.next()).find(|event| event["event"] == "granted");
    let Some(granted) = granted else {
        process::exit(0);
    };
    let mut lease = Lease {
        stop_at: 0,
        deadline: 0,
        told: None,
    };
    lease.apply(&granted);
    let lease: &Mutex<Lease> = Box::leak(Box::new(Mutex::new(lease)));
    thread::spawn(move || {
        while let Some(event) = events.next() {
            locked(lease).apply(&event);
        }
        locked(lease).told.get_or_insert(StopCause::EndOfEvents);
    });
    let leases = Leases::read(|name| granted["env"][name].as_str().map(str::to_owned));
    let holder = Holder::new(folder, run, plan, leases);
    match work(&holder, lease) {
        Ok(at) => holder.write(at, Event::Finished),
        Err(cause) => holder.write(now(), Event::Stopped { cause }),
    }
    process::exit(0);
}

/// Works as planned. Returns the time at which the work has finished, or why the program had to stop before.
fn work(holder: &Holder, lease: &Mutex<Lease>) -> Result<Micros, StopCause> {
    let shape = holder.plan.shape;
    let check = || locked(lease).check(shape);
    let started = check()?;
    let witnesses = holder.take_witnesses();
    holder.write_start(started, parent_id(), &witnesses);
    if !witnesses.is_alone {
        return Err(StopCause::Overlap);
    }
    drop(witnesses);
    // Another holder that starts during the write finds the locked witnesses.
    holder.work(started, |holder| Ok((check()?, holder.take_witnesses())))?;
    check()
}

fn locked(lease: &Mutex<Lease>) -> MutexGuard<'_, Lease> {
    lease.lock().unwrap_or_else(PoisonError::into_inner)
}
