//! Tests of the decisions of the supervisor.

use std::time::Duration;

use super::{Effect, INT, KILL, StopReason, Supervisor, SupervisorInput, TERM};
use crate::lease::instant::BootInstant;
use crate::lease::timing::Timing;
use crate::sys::signal::{Origin, Signal};

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));
const GRACE: Duration = Duration::from_secs(5);
const OTHER_PROCESS: Origin = Origin::Process(7);

fn timing() -> Timing {
    Timing::new(Duration::from_secs(30), Some(GRACE)).expect("a valid ttl")
}

fn supervisor(shares_terminal: bool) -> Supervisor {
    Supervisor::new(timing().deadline(START), None, TERM, GRACE, shares_terminal)
}

fn supervisor_with(stop_signal: i32) -> Supervisor {
    let limit = Some(after(2));
    Supervisor::new(timing().deadline(START), limit, stop_signal, GRACE, false)
}

fn after(seconds: u64) -> BootInstant {
    START + Duration::from_secs(seconds)
}

fn signal(number: i32, origin: Origin) -> SupervisorInput {
    SupervisorInput::Signal(Signal { number, origin })
}

#[test]
fn lease_that_is_not_renewed_stops_the_command_with_term_then_kill() {
    let mut supervisor = supervisor(false);
    assert_eq!(supervisor.step(after(23), SupervisorInput::Tick), []);
    assert_eq!(supervisor.wake_at(), Some(after(24)));
    assert_eq!(
        supervisor.step(after(24), SupervisorInput::Tick),
        [Effect::Stop(15)]
    );
    assert_eq!(supervisor.step(after(28), SupervisorInput::Tick), []);
    assert_eq!(
        supervisor.step(after(29), SupervisorInput::Tick),
        [Effect::Stop(9)]
    );
    assert_eq!(supervisor.stop_reason(), StopReason::Expired);
}

#[test]
fn renewal_moves_the_deadline_until_the_stop_has_started() {
    let mut supervisor = supervisor(false);
    let renewed = SupervisorInput::Renewed(timing().deadline(after(20)));
    assert_eq!(supervisor.step(after(21), renewed), []);
    assert_eq!(supervisor.step(after(30), SupervisorInput::Tick), []);
    assert_eq!(
        supervisor.step(after(44), SupervisorInput::Tick),
        [Effect::Stop(15)]
    );
    let late = SupervisorInput::Renewed(timing().deadline(after(43)));
    assert_eq!(supervisor.step(after(45), late), []);
    assert_eq!(
        supervisor.step(after(49), SupervisorInput::Tick),
        [Effect::Stop(9)]
    );
}

#[test]
fn supervisor_thawed_after_the_deadline_kills_immediately() {
    let mut supervisor = supervisor(false);
    assert_eq!(
        supervisor.step(after(60), SupervisorInput::Tick),
        [Effect::Stop(15)]
    );
    assert_eq!(
        supervisor.step(after(60), SupervisorInput::Tick),
        [Effect::Stop(9)]
    );
}

#[test]
fn lost_lease_stops_the_command_immediately() {
    let mut supervisor = supervisor(false);
    assert_eq!(
        supervisor.step(after(3), SupervisorInput::Lost),
        [Effect::Stop(15)]
    );
    assert_eq!(
        supervisor.step(after(8), SupervisorInput::Tick),
        [Effect::Stop(9)]
    );
    assert_eq!(supervisor.stop_reason(), StopReason::Lost);
}

#[test]
fn command_gets_the_chosen_stop_signal_for_every_reason_and_then_sigkill() {
    for (at, input, reason) in [
        (after(1), SupervisorInput::Lost, StopReason::Lost),
        (after(2), SupervisorInput::Tick, StopReason::TimedOut),
        (after(24), SupervisorInput::Tick, StopReason::Expired),
    ] {
        let mut supervisor = supervisor_with(INT);
        assert_eq!(supervisor.step(at, input), [Effect::Stop(INT)]);
        assert_eq!(supervisor.stop_reason(), reason);
        assert_eq!(supervisor.wake_at(), Some(at + GRACE));
        assert_eq!(
            supervisor.step(at + GRACE, SupervisorInput::Tick),
            [Effect::Stop(KILL)]
        );
    }
}

#[test]
fn stop_signal_kill_leaves_no_grace_period() {
    let mut supervisor = supervisor_with(KILL);
    assert_eq!(
        supervisor.step(after(2), SupervisorInput::Tick),
        [Effect::Stop(KILL)]
    );
    assert_eq!(supervisor.stop_reason(), StopReason::TimedOut);
    assert_eq!(supervisor.wake_at(), None);
}

#[test]
fn stop_signal_does_not_change_forwarded_signals() {
    let mut supervisor = supervisor_with(10);
    let term = signal(TERM, OTHER_PROCESS);
    assert_eq!(supervisor.step(after(1), term), [Effect::Forward(TERM)]);
    let own = signal(10, OTHER_PROCESS);
    assert_eq!(supervisor.step(after(1), own), [Effect::Forward(10)]);
    assert_eq!(supervisor.step(after(1), own), [Effect::Forward(10)]);
}

#[test]
fn signal_is_forwarded_unchanged_and_the_second_stop_signal_kills() {
    let mut supervisor = supervisor(false);
    let term = signal(15, OTHER_PROCESS);
    assert_eq!(
        supervisor.step(after(1), signal(10, OTHER_PROCESS)),
        [Effect::Forward(10)]
    );
    assert_eq!(supervisor.step(after(1), term), [Effect::Forward(15)]);
    assert_eq!(supervisor.step(after(2), term), [Effect::Stop(9)]);
    assert_eq!(supervisor.stop_reason(), StopReason::None);
}

#[test]
fn echo_of_a_stop_signal_is_ignored() {
    let mut supervisor = supervisor(false);
    let term = signal(15, Origin::Process(100));
    let soon = |milliseconds| START + Duration::from_millis(milliseconds);
    assert_eq!(supervisor.step(soon(0), term), [Effect::Forward(15)]);
    assert_eq!(supervisor.step(soon(1), term), []);
    let another = signal(15, Origin::Process(101));
    assert_eq!(supervisor.step(soon(2), another), [Effect::Stop(9)]);
}

#[test]
fn signal_from_the_command_to_a_shared_group_is_not_forwarded() {
    let mut on_terminal = supervisor(true);
    let term = signal(15, Origin::Below);
    assert_eq!(on_terminal.step(after(1), term), []);
    assert_eq!(on_terminal.step(after(2), term), []);
    let mut in_own_group = supervisor(false);
    assert_eq!(in_own_group.step(after(1), term), [Effect::Forward(15)]);
}

#[test]
fn ctrl_c_on_a_shared_terminal_is_neither_forwarded_nor_counted() {
    let mut supervisor = supervisor(true);
    assert_eq!(supervisor.step(after(1), signal(2, Origin::Terminal)), []);
    assert_eq!(supervisor.step(after(2), signal(2, Origin::Terminal)), []);
    assert_eq!(
        supervisor.step(after(1), signal(10, OTHER_PROCESS)),
        [Effect::Forward(10)]
    );
    assert_eq!(
        supervisor.step(after(3), signal(2, OTHER_PROCESS)),
        [Effect::Forward(2)]
    );
}
