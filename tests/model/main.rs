//! The protocol, checked in every possible order of events: two clients, one server, and up to two faults at any two
//! times.
//!
//! The decisions are those of the program: the model runs its `Acquire`, `Renewals`, `Supervisor` and
//! `Timing::deadline` unchanged (`client`, `monitor`). Everything around these state machines is modelled: the
//! statements' conditions on the row and the queue lock (`server`), connections, and what the threads and the monitor
//! do with the machines' output (`world`, `events`). A variant breaks one rule around them, and the checker must find
//! the consequence (`mutation`).
//!
//! Modelled:
//! - Requests and responses that are lost, delayed, executed late or executed twice.
//! - Errors in place of the response to an executed request.
//! - Connections that break; the server notices at any later time.
//! - A server that restarts, that ends idle sessions, or whose clock is set forward and back.
//! - Parents that are killed or stopped for any time, and monitors that are killed.
//! - Commands that end at any time, waiters that give up, and an operator that revokes a lease.
//!
//! Time passes in ticks (`time`), up to a last one, and a lease lasts four. Within a tick, events happen in any order.
//! A process that is not stopped or delayed does within a tick what is due in it; lateness is a fault. If no order of
//! events can distinguish a fault from the same fault at a later time, only the later time is tried. Killing takes up
//! to one tick, which is the margin.
//!
//! Not modelled:
//! - A monitor that is stopped, or that is killed together with its parent: dlock promises nothing then.
//! - Clocks of unequal rate: the margin is also for them, but here the killing uses all of it.
//! - A monitor that does not check the clock before it starts the command, and a pipe to the monitor that loses data.
//! - A queue of more than two, `WaitEnded`, queue entries of sessions that have ended, wait limits, other ttls.
//! - Several servers, and rows that were lost: only the token protects against them.
//! - Liveness. The model checks that events can happen; tests on servers check that they do.
mod check;
mod client;
mod events;
mod monitor;
mod mutation;
mod properties;
mod replies;
mod server;
mod time;
mod world;

use crate::check::{check, search_for};
use crate::mutation::{Kinds, Run, Variant};
use crate::properties::{
    DEAD_TAKEN_OVER, EXCLUSION, FROZEN_TAKEN_OVER, HANDED_OFF, HANDED_OVER, IN_TIME, KEPT,
    NO_FALSE_SUCCESS, ORDER, OWN_CLOCK, RELEASE_AFTER_DEATH, REVOKED_ENDS, REVOKED_GIVEN_UP,
    ROW_IS_HELD, SESSION_KNOWN, SETTLED, SURVIVED,
};
use crate::server::Rules;
use crate::time::Tick;

/// Two faults of any kind at any two times.
#[test]
fn two_dlocks_never_run_two_commands_despite_two_faults() {
    let run = Run {
        horizon: 6,
        ..Run::sound()
    };
    check("two faults", run).assert_holds(&[
        HANDED_OVER,
        HANDED_OFF,
        DEAD_TAKEN_OVER,
        FROZEN_TAKEN_OVER,
        SURVIVED,
        OWN_CLOCK,
    ]);
}

/// The second dlock of a client finds what the first one left behind.
#[test]
fn three_dlocks_never_run_two_commands_despite_one_fault() {
    let run = Run {
        faults: 1,
        lives: [2, 1],
        horizon: 5,
        ..Run::sound()
    };
    check("three dlocks", run).assert_holds(&[HANDED_OVER, DEAD_TAKEN_OVER, SURVIVED]);
}

/// An operator revokes a lease at any time.
#[test]
fn revoked_lease_never_allows_a_second_command() {
    let run = Run {
        breaks: 1,
        faults: 1,
        horizon: 6,
        ..Run::sound()
    };
    check("an operator", run).assert_holds(&[HANDED_OVER, SURVIVED, REVOKED_GIVEN_UP, SETTLED]);
}

/// With a queue lock the holder would still own it. Without one, nothing prevents a second grant.
#[test]
fn row_freed_by_hand_while_the_command_runs_is_detected() {
    let run = Run {
        variant: Variant::FreedByHand,
        rules: WITHOUT_QUEUE_LOCK,
        breaks: 1,
        faults: 0,
        ..Run::sound()
    };
    assert_broken("freed by hand", run, EXCLUSION);
}

/// The manual promises this as long as the holder's connection does not break.
#[test]
fn clock_jump_of_the_server_never_allows_a_second_holder() {
    for steps in [&[7, -7], &[-7, 7]] {
        let run = Run {
            kinds: Kinds::Delays,
            faults: 1,
            steps,
            horizon: 7,
            ..Run::sound()
        };
        check("clock steps", run).assert_holds(&[HANDED_OVER, FROZEN_TAKEN_OVER]);
    }
}

/// Without a queue lock, waiters poll the row.
#[test]
fn claims_hold_without_named_locks_if_the_clock_is_not_set() {
    let run = Run {
        rules: WITHOUT_QUEUE_LOCK,
        faults: 1,
        horizon: 6,
        ..Run::sound()
    };
    check("no queue lock", run).assert_holds(&[HANDED_OVER, DEAD_TAKEN_OVER, SURVIVED]);
}

/// One of the two documented limits, in which the server's clock is trusted: the holder's connection broke.
#[test]
fn clock_jump_after_a_broken_connection_allows_a_second_holder() {
    let run = Run {
        faults: 1,
        steps: &[7],
        ..Run::sound()
    };
    assert_broken("a step and a broken connection", run, EXCLUSION);
}

#[test]
fn clock_jump_without_named_locks_allows_a_second_holder() {
    let run = Run {
        rules: WITHOUT_QUEUE_LOCK,
        faults: 0,
        steps: &[7],
        ..Run::sound()
    };
    assert_broken("a step and no queue lock", run, EXCLUSION);
}

const WITHOUT_QUEUE_LOCK: Rules = Rules {
    no_queue_lock: true,
    ..Run::sound().rules
};

/// Asserts that the checker finds a violation of `claim` in the protocol without one of its rules.
fn assert_broken_by(
    variant: Variant,
    (faults, kinds, horizon): (u8, Kinds, Tick),
    claim: &'static str,
) {
    let run = Run {
        variant,
        horizon,
        faults,
        kinds,
        ..Run::sound()
    };
    assert_broken(&format!("{variant:?}"), run, claim);
}

fn assert_broken(name: &str, run: Run, claim: &'static str) {
    search_for(claim, name, run).assert_fails(claim);
}

#[test]
fn deadline_counted_from_the_response_is_detected() {
    assert_broken_by(Variant::DeadlineFromReply, (2, Kinds::Halts, 5), EXCLUSION);
}

#[test]
fn connection_reused_after_an_error_is_detected() {
    assert_broken_by(Variant::ConnectionKept, (2, Kinds::Halts, 5), EXCLUSION);
}

#[test]
fn owner_id_that_is_not_read_back_is_detected() {
    assert_broken_by(Variant::OkBelieved, (0, Kinds::All, 1), EXCLUSION);
}

/// Mutation of rule R1.
#[test]
fn grant_of_unknown_time_without_a_renewal_is_detected() {
    assert_broken_by(Variant::OldGrantBelieved, (2, Kinds::Halts, 5), EXCLUSION);
}

/// Mutation of rule R2.
#[test]
fn revoked_record_taken_for_a_lease_is_detected() {
    let run = Run {
        variant: Variant::RevokedIsHeld,
        rules: Rules {
            revoked_is_held: true,
            ..Run::sound().rules
        },
        breaks: 1,
        faults: 1,
        horizon: 4,
        ..Run::sound()
    };
    assert_broken("revoked is held", run, REVOKED_ENDS);
}

/// Mutation of rule R3.
#[test]
fn parent_blocked_by_messages_is_detected() {
    let run = Run {
        variant: Variant::BlockedByMessages,
        faults: 0,
        horizon: 5,
        ..Run::sound()
    };
    assert_broken("blocked by messages", run, KEPT);
}

/// Mutations of rules R4 and R9.
#[test]
fn lost_lease_that_ends_as_success_is_detected() {
    for variant in [Variant::EndBelieved, Variant::SumBelieved] {
        let run = Run {
            variant,
            breaks: 1,
            faults: 0,
            horizon: 4,
            ..Run::sound()
        };
        assert_broken(&format!("{variant:?}"), run, NO_FALSE_SUCCESS);
    }
}

/// Mutation of rule R5.
#[test]
fn row_with_a_dead_session_of_a_healthy_holder_is_detected() {
    let run = Run {
        rules: Rules {
            session_stays: true,
            ..Run::sound().rules
        },
        faults: 1,
        horizon: 4,
        ..Run::sound()
    };
    assert_broken("the session stays", run, SESSION_KNOWN);
}

#[test]
fn no_lease_is_lost_without_a_fault() {
    let run = Run {
        faults: 0,
        lives: [2, 2],
        ..Run::sound()
    };
    check("no fault", run).assert_holds(&[HANDED_OVER, HANDED_OFF]);
}

#[test]
fn missing_monitor_is_detected() {
    assert_broken_by(Variant::NoMonitor, (1, Kinds::All, 5), EXCLUSION);
    assert_broken_by(Variant::NoMonitor, (1, Kinds::All, 5), ROW_IS_HELD);
}

#[test]
fn start_without_a_clock_check_is_detected() {
    assert_broken_by(Variant::BlindStart, (1, Kinds::All, 5), EXCLUSION);
}

#[test]
fn start_without_a_clock_check_breaks_token_order_and_deadline() {
    assert_broken_by(Variant::BlindStart, (1, Kinds::All, 5), ORDER);
    assert_broken_by(Variant::BlindStart, (1, Kinds::All, 5), IN_TIME);
}

#[test]
fn missing_margin_is_detected() {
    assert_broken_by(Variant::NoMargin, (2, Kinds::Halts, 4), EXCLUSION);
}

#[test]
fn release_before_the_tree_is_dead_is_detected() {
    assert_broken_by(
        Variant::EarlyRelease,
        (1, Kinds::All, 5),
        RELEASE_AFTER_DEATH,
    );
}

#[test]
fn takeover_by_the_server_clock_alone_is_detected() {
    let run = Run {
        rules: Rules {
            no_queue_lock: true,
            clock_alone: true,
            ..Run::sound().rules
        },
        faults: 0,
        steps: &[5],
        ..Run::sound()
    };
    assert_broken("the server's clock alone", run, EXCLUSION);
}

#[test]
fn queue_lock_taken_for_a_hand_off_is_detected() {
    let run = Run {
        rules: Rules {
            queue_lock_alone: true,
            ..Run::sound().rules
        },
        faults: 1,
        kinds: Kinds::Halts,
        ..Run::sound()
    };
    assert_broken("the queue lock alone", run, EXCLUSION);
}
