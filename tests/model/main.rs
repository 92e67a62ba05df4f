//! Checks the protocol in every possible order of events, with two clients, one server, and up to two faults at any two
//! times.
//!
//! The model runs dlock's own `Keeper`, `Supervisor` and `Timing::deadline` without changes (`client`,
//! `monitor`), so dlock's own code makes all decisions. The model replaces everything else: the conditions of the
//! statements on the row and the queue lock (`server`), the connections, and the threads and the monitor, which execute
//! the decisions (`world`, `events`). A broken variant breaks one rule of this environment, and the checker must find a
//! property that then fails (`mutation`).
//!
//! Modelled:
//! - Requests that are lost, delayed, executed late or executed twice, and responses that are lost or delayed.
//! - Errors in place of the response to an executed request.
//! - Connections that break. The server may detect the break at any later time.
//! - A database that loses all writes since any earlier time: a replica replaces the server, or the server continues
//!   without the writes.
//! - A server that restarts, that ends idle sessions, or whose clock jumps forward and back.
//! - Parents that are killed, or stopped for any number of ticks, and monitors that are killed. After the death of the
//!   parent, the monitor ends the lease.
//! - Statements that outlive their command and all dlock processes, until they end, are killed, or the server restarts.
//!   Renewals note their sessions (`server/statements`), and the next contender ends them.
//! - Commands that end at any time, waiters that give up, and an operator that revokes a lease.
//! - Commands with `--once`, and a server that refuses to write the history.
//! - Reads over a new connection, before a command starts and while it runs. They may fail, or find another server.
//! - Leases in slots (`server/slots`): each client has a limit. An operator revokes only leases in the record, and a grant of
//!   a slot that the database has lost is not written again.
//!
//! `make test` searches shorter runs, in which fewer faults happen or fewer ticks pass. `make model` searches the whole
//! runs (`check::size`).
//!
//! `several` checks processes with several locks in a smaller model, without broken connections.
//!
//! Time passes in ticks (`time`), and each run has a last tick. A lease lasts four ticks. Within a tick, events happen
//! in any order. A process that is not stopped or stalled completes all due work within the tick, so a delay is a
//! fault. If no order of events can distinguish a fault from the same fault at a later time, the checker tries only the
//! later time. Killing a process tree takes up to one tick, which is the length of the safety margin.
//!
//! Not modelled:
//! - A monitor that is stopped, or that is killed together with its parent. dlock makes no promise for these cases.
//! - Sessions without a statement, sessions that dlock's account may not see or kill, and failed looks for sessions.
//! - Clocks that run at different rates. The safety margin also covers this difference, but in the model the kill uses
//!   the whole margin.
//! - A monitor that does not check the deadline before it starts the command, and lost data in the pipe to the monitor.
//! - A queue of more than two, `WaitEnded`, queue entries of sessions that have ended, wait limits, and other ttls.
//! - Several servers at the same time, and lost rows. In these cases, only the fencing token protects a resource.
//! - A process that starts within a ttl after the database has lost writes, or that has read nothing before. It cannot
//!   notice the loss, and only the fencing token protects a resource from it.
//! - Liveness. The model checks that each expected event is possible. The tests on real servers check that it happens.

mod check;
mod client;
#[path = "../it/contract.rs"]
mod contract;
mod events;
mod memory_store;
mod monitor;
mod mutation;
mod properties;
mod responses;
mod scenario;
mod server;
mod several;
mod store;
mod time;
mod trace;
mod world;

use std::num::NonZeroU32;

use dlock::lease::limit::Limit;
use dlock::store::session::SessionPolicy;

use crate::check::{check, search_for, size};
use crate::mutation::{FaultKinds, LostWrites, Run, Variant};
use crate::properties::{
    ABANDONED_RELEASED, DEAD_BY_DEADLINE, DEAD_TAKEN_OVER, EARLIER_STATEMENT_ENDED, EXCLUSION,
    FROZEN_TAKEN_OVER, GRANT_REASSERTED, GRANTED_THOUGH_DONE, HANDED_OFF, HANDED_OVER, IN_ORDER,
    LOST_GRANT_OUTWAITED, LOST_RESPONSE_SURVIVED, NO_FALSE_SUCCESS, NOT_LOST, NOT_RUN_AGAIN,
    NOTE_REMOVED, OWN_CLOCK, OWN_STATEMENT_ENDED, PASSED_ONCE, PASSER_SERVED, RELEASE_AFTER_DEATH,
    RELEASED_BY_HOLDER, REVOKED_NOT_RENEWED, REVOKED_RELEASED, ROW_IS_HELD, SESSION_KNOWN,
    SHARED_RUN, STATEMENTS_ENDED, STATEMENTS_WITHIN_LIMIT, TOKEN_ORDER, UNKNOWN_GRANT_RELEASED,
};
use crate::server::Rules;
use crate::time::Tick;

/// A process with several locks holds one of them without a command, and renews it, while it waits for the next one.
#[test]
fn lease_that_is_held_before_its_command_never_allows_a_second_command() {
    for (faults, revocations, clock_steps) in [(1, 1, &[][..]), (0, 0, &[6])] {
        let run = Run {
            waits_for_others: true,
            horizon: size(6, 3),
            faults,
            revocations,
            clock_steps,
            ..Run::sound()
        };
        check("lease without a command", run).assert_holds(&[HANDED_OVER]);
    }
}

/// Two processes whose limits differ, or whose leases exist at the same time.
#[test]
fn no_command_runs_beside_more_commands_than_its_limit_allows() {
    for limits in [[Limit::ONE, Limit::NONE], [Limit::NONE, Limit::ONE]] {
        let run = Run {
            limits,
            faults: 1,
            horizon: size(6, 5),
            ..Run::sound()
        };
        check("shared and exclusive", run).assert_holds(&[
            HANDED_OVER,
            DEAD_TAKEN_OVER,
            FROZEN_TAKEN_OVER,
            LOST_RESPONSE_SURVIVED,
        ]);
        let rules = Rules {
            no_queue_lock: true,
            ..run.rules
        };
        check("without named locks", Run { rules, ..run }).assert_holds(&[HANDED_OVER]);
    }
    let run = Run {
        kinds: FaultKinds::All,
        faults: 1,
        horizon: size(4, 2),
        ..SLOTS
    };
    check("slots", run).assert_holds(&[HANDED_OVER, SHARED_RUN, LOST_RESPONSE_SURVIVED]);
}

/// The faults of the other runs beside a lease in a slot.
#[test]
fn limits_hold_after_a_clock_that_is_set_or_with_a_third_process() {
    let shared = Run {
        limits: [Limit::ONE, Limit::NONE],
        faults: 1,
        horizon: size(5, 3),
        ..Run::sound()
    };
    let run = Run {
        processes: [2, 1],
        ..shared
    };
    check("three processes", run).assert_holds(&[HANDED_OVER, DEAD_TAKEN_OVER]);
    let run = Run {
        clock_steps: &[6],
        kinds: FaultKinds::StopsAndQuits,
        ..shared
    };
    check("a clock that is set", run).assert_holds(&[HANDED_OVER]);
}

#[test]
fn limits_hold_after_a_fail_over_that_loses_grants_of_slots() {
    for limits in [[Limit::NONE, Limit::ONE], [Limit::NONE, TWO]] {
        let run = Run {
            limits,
            faults: size(1, 0),
            horizon: 3,
            ..AFTER_FAIL_OVER
        };
        check("a fail-over", run).assert_holds(&[HANDED_OVER, GRANT_REASSERTED]);
    }
}

#[test]
fn noted_statements_of_dead_holders_count_for_the_limits() {
    for limits in [[Limit::ONE, Limit::NONE], [Limit::NONE, Limit::ONE]] {
        let run = Run {
            limits,
            ..WITH_STATEMENT
        };
        check("a statement and limits", run.until(3)).assert_holds(&[HANDED_OVER, NOTE_REMOVED]);
        let variant = Variant::EarlierStatementsIgnored;
        let broken = Run { variant, ..run };
        assert_broken("a note is ignored", broken, STATEMENTS_WITHIN_LIMIT);
    }
}

/// The first exclusive process is granted the lease beside a note in a slot, and gives up before it has removed the note.
#[test]
fn note_in_a_slot_outlives_the_next_holder() {
    let run = Run {
        limits: [Limit::ONE, Limit::NONE],
        processes: [2, 1],
        faults: 2,
        kinds: FaultKinds::Quits,
        ..WITH_STATEMENT
    };
    check("a note outlives a holder", run.until(2)).assert_holds(&[HANDED_OVER, NOTE_REMOVED]);
    let rules = Rules {
        noted_slots_are_not_marked: true,
        ..run.rules
    };
    let broken = Run { rules, ..run };
    assert_broken(
        "noted slots are not marked",
        broken,
        STATEMENTS_WITHIN_LIMIT,
    );
}

/// dlock may be killed or frozen, and the program may read no event after a grant or a renewal.
#[test]
fn program_with_a_published_deadline_never_works_beside_the_next_command() {
    check("programs", PROGRAMS.until(6)).assert_holds(&[HANDED_OVER, FROZEN_TAKEN_OVER]);
    let run = Run {
        limits: [Limit::NONE, Limit::ONE],
        ..PROGRAMS
    };
    check("programs and slots", run.until(5)).assert_holds(&[HANDED_OVER]);
    let run = Run {
        revocations: 1,
        ..PROGRAMS
    };
    check("programs and an operator", run.until(5)).assert_holds(&[HANDED_OVER, REVOKED_RELEASED]);
    for (name, variant) in [
        ("the program does not compare", Variant::NoMonitor),
        ("the deadline of a response", Variant::DeadlineFromResponse),
        ("a release at the loss", Variant::ReleasedAtLoss),
    ] {
        assert_broken(name, Run { variant, ..run }, EXCLUSION);
    }
}

const PROGRAMS: Run = Run {
    holds: true,
    faults: 1,
    horizon: 7,
    ..Run::sound()
};

#[test]
fn broken_rules_of_limits_are_detected() {
    let sound = SLOTS.rules;
    let assert_rule = |name, run: Run, rules, property| {
        check(name, run).assert_holds(&[]);
        assert_broken(name, Run { rules, ..run }, property);
    };
    let rules = Rules {
        only_own_limit_counts: true,
        ..sound
    };
    assert_rule("the limits of holders are ignored", SLOTS, rules, EXCLUSION);
    let rules = Rules {
        slot_keeps_token: true,
        ..sound
    };
    assert_rule("a slot keeps the token", SLOTS, rules, TOKEN_ORDER);
    let rules = Rules {
        shared_record_is_free: true,
        ..sound
    };
    let run = Run {
        limits: [Limit::NONE, Limit::ONE],
        earlier_holder: None,
        ..SLOTS
    };
    assert_rule("the record is free beside a slot", run, rules, EXCLUSION);
    let rules = Rules {
        dead_slot_may_be_renewed: true,
        ..sound
    };
    let run = Run {
        faults: 1,
        horizon: 6,
        clock_steps: &[6],
        ..run
    };
    assert_broken("a renewed slot is freed", Run { rules, ..run }, ROW_IS_HELD);
}

/// In this run, a third client has a lease in a slot.
const SLOTS: Run = Run {
    limits: [TWO, Limit::NONE],
    earlier_holder: Some(Limit::NONE),
    faults: 0,
    kinds: FaultKinds::Breaks,
    horizon: 4,
    ..Run::sound()
};

const TWO: Limit = match NonZeroU32::new(2) {
    Some(two) => Limit::new(two),
    None => Limit::ONE,
};

/// The run has up to two faults of any kind at any two times.
#[test]
fn two_dlock_processes_never_run_two_commands_despite_two_faults() {
    let run = Run {
        faults: size(2, 1),
        horizon: 6,
        ..Run::sound()
    };
    let findings = check("two faults", run);
    // The second fault is a broken connection.
    findings.assert_holds(size(&[OWN_CLOCK], &[]));
    findings.assert_holds(&[
        HANDED_OVER,
        HANDED_OFF,
        DEAD_TAKEN_OVER,
        ABANDONED_RELEASED,
        FROZEN_TAKEN_OVER,
        LOST_RESPONSE_SURVIVED,
    ]);
}

/// The second dlock process of a client starts with the server state that the first process left.
#[test]
fn three_dlock_processes_never_run_two_commands_despite_one_fault() {
    let run = Run {
        faults: 1,
        processes: [2, 1],
        horizon: size(5, 4),
        ..Run::sound()
    };
    check("three processes", run).assert_holds(&[
        HANDED_OVER,
        DEAD_TAKEN_OVER,
        LOST_RESPONSE_SURVIVED,
    ]);
}

/// In this run, two clients wait for a third one, and their connections break.
#[test]
fn waiters_are_served_in_order_although_connections_break() {
    check("a queue", QUEUE.until(4)).assert_holds(&[PASSER_SERVED]);
}

#[test]
fn waiter_that_does_not_mark_that_it_waits_again_is_detected() {
    let rules = Rules {
        marks_are_missing: true,
        ..QUEUE.rules
    };
    assert_broken("a queue without marks", Run { rules, ..QUEUE }, IN_ORDER);
}

#[test]
fn waiter_that_lets_another_one_pass_again_and_again_is_detected() {
    let rules = Rules {
        passes_are_forgotten: true,
        ..QUEUE.rules
    };
    assert_broken(
        "a queue without an end of passes",
        Run { rules, ..QUEUE },
        PASSED_ONCE,
    );
}

const QUEUE: Run = Run {
    earlier_holder: Some(Limit::ONE),
    kinds: FaultKinds::Breaks,
    horizon: 5,
    ..Run::sound()
};

/// In this run, an operator may revoke a lease at any time.
#[test]
fn revoked_lease_never_allows_a_second_command() {
    let run = Run {
        revocations: 1,
        faults: 1,
        horizon: size(6, 4),
        ..Run::sound()
    };
    check("an operator", run).assert_holds(&[
        HANDED_OVER,
        LOST_RESPONSE_SURVIVED,
        REVOKED_RELEASED,
        UNKNOWN_GRANT_RELEASED,
    ]);
}

/// A read over a new connection may fail, or find another server although the address has not moved.
#[test]
fn checks_of_the_address_never_allow_a_second_command() {
    let run = Run {
        checks_address: true,
        faults: 1,
        horizon: size(5, 4),
        ..Run::sound()
    };
    check("checks of the address", run).assert_holds(&[
        HANDED_OVER,
        HANDED_OFF,
        DEAD_TAKEN_OVER,
        LOST_RESPONSE_SURVIVED,
    ]);
}

/// In this run, each command runs with `--once`, and may fail.
#[test]
fn command_with_once_never_starts_after_a_success() {
    check("once", ONCE).assert_holds(&[HANDED_OVER, GRANTED_THOUGH_DONE]);
}

#[test]
fn contender_that_ignores_a_success_after_its_read_is_detected() {
    let run = Run {
        variant: Variant::SuccessAfterReadIgnored,
        ..ONCE
    };
    assert_broken("a success is ignored", run, NOT_RUN_AGAIN);
}

const ONCE: Run = Run {
    once: true,
    faults: 1,
    horizon: 5,
    ..Run::sound()
};

#[test]
fn release_that_forgets_a_lost_lease_is_detected() {
    assert_broken_by(
        Variant::LossForgotten,
        (1, FaultKinds::StopsAndStalls, 7),
        NO_FALSE_SUCCESS,
    );
}

/// In this run, the server refuses to write the history.
#[test]
fn lease_is_released_although_the_history_cannot_be_written() {
    let rules = Rules {
        history_is_refused: true,
        ..Run::sound().rules
    };
    let run = Run {
        rules,
        faults: 1,
        horizon: 5,
        ..Run::sound()
    };
    check("no history", run).assert_holds(&[HANDED_OVER]);
    let variant = Variant::HistoryRequired;
    let run = Run { variant, ..run };
    assert_broken("a required history", run, RELEASED_BY_HOLDER);
}

/// In this run, an operator may remove the row at any time at which nobody uses it.
#[test]
fn removed_row_never_makes_a_token_smaller() {
    let run = Run {
        prunes: 1,
        faults: 1,
        horizon: 6,
        ..Run::sound()
    };
    check("a removed row", run).assert_holds(&[
        HANDED_OVER,
        LOST_RESPONSE_SURVIVED,
        DEAD_TAKEN_OVER,
        UNKNOWN_GRANT_RELEASED,
    ]);
    let rules = Rules {
        lowest_token_is_missing: true,
        ..run.rules
    };
    assert_broken(
        "a row without the lowest token",
        Run { rules, ..run },
        TOKEN_ORDER,
    );
}

/// In this run, a command may start a statement on the server, which outlives the command and all dlock processes.
#[test]
fn noted_statement_never_outlives_the_start_of_the_next_command() {
    for policies in [[SessionPolicy::Kill; 2], [SessionPolicy::Wait; 2]] {
        let run = Run {
            policies,
            horizon: size(6, 5),
            ..WITH_STATEMENT
        };
        check("a statement", run).assert_holds(&[
            HANDED_OVER,
            EARLIER_STATEMENT_ENDED,
            ABANDONED_RELEASED,
        ]);
    }
    // The holder ends the statement of its own command while its connection has a fault.
    let run = Run {
        kinds: FaultKinds::All,
        horizon: size(4, 3),
        ..WITH_STATEMENT
    };
    check("a statement and faults of connections", run)
        .assert_holds(&[HANDED_OVER, OWN_STATEMENT_ENDED]);
}

/// The client that ignores sessions removes no note, so the third command waits for the statement of the first.
#[test]
fn client_that_ignores_sessions_does_not_remove_the_note() {
    let run = Run {
        policies: [SessionPolicy::Kill, SessionPolicy::Ignore],
        processes: [2, 1],
        kinds: FaultKinds::Quits,
        horizon: 3,
        ..WITH_STATEMENT
    };
    check("a client that ignores", run).assert_holds(&[HANDED_OVER]);
}

#[test]
fn statement_of_a_successful_command_is_not_killed() {
    let run = Run {
        processes: [2, 1],
        faults: 0,
        horizon: 4,
        ..WITH_STATEMENT
    };
    check("a successful command", run).assert_holds(&[HANDED_OVER, OWN_STATEMENT_ENDED]);
}

/// This is a limit: a renewal that the server executes late, after a newer renewal, removes the sessions that only the
/// newer one has noted. The next renewal notes them again.
#[test]
fn late_renewal_can_remove_a_noted_statement() {
    assert_statement_survives(Run {
        statements: 2,
        faults: 2,
        kinds: FaultKinds::LateRenewals,
        horizon: 2,
        ..WITH_STATEMENT
    });
}

#[test]
fn contender_that_does_not_wait_for_noted_statements_is_detected() {
    assert_statement_survives(Run {
        variant: Variant::EarlierStatementsIgnored,
        ..WITH_STATEMENT
    });
}

/// The release is the one of a holder whose wait for its own statements is ended by a signal.
#[test]
fn release_that_removes_the_note_of_a_statement_is_detected() {
    assert_statement_survives(Run {
        variant: Variant::NoteRemovedTooEarly,
        ..WITH_STATEMENT
    });
}

#[test]
fn grant_that_removes_the_note_of_a_statement_is_detected() {
    assert_statement_survives(Run {
        rules: Rules {
            grant_removes_note: true,
            ..Run::sound().rules
        },
        ..WITH_STATEMENT
    });
}

/// Asserts that the checker finds a command that starts although a noted statement of an earlier run is executed.
fn assert_statement_survives(run: Run) {
    assert_broken("a statement survives", run, STATEMENTS_ENDED);
}

const WITH_STATEMENT: Run = Run {
    statements: 1,
    policies: [SessionPolicy::Kill; 2],
    faults: 1,
    kinds: FaultKinds::Deaths,
    horizon: 6,
    ..Run::sound()
};

/// In this run, the queue lock does not work. Otherwise, the holder would keep the queue lock and prevent a second
/// grant.
#[test]
fn row_freed_by_an_operator_while_the_command_runs_is_detected() {
    let run = Run {
        variant: Variant::FreedByOperator,
        rules: WITHOUT_QUEUE_LOCK,
        revocations: 1,
        faults: 0,
        ..Run::sound()
    };
    assert_broken("freed by an operator", run, EXCLUSION);
}

/// dlock(7) promises that a step of the server's clock does not create a second holder while the holder's session has the
/// queue lock.
#[test]
fn clock_jump_of_the_server_never_allows_a_second_holder() {
    for clock_steps in [&[7, -7], &[-7, 7]] {
        let run = Run {
            kinds: FaultKinds::StopsAndQuits,
            faults: 1,
            clock_steps,
            horizon: size(7, 6),
            ..Run::sound()
        };
        check("clock jumps", run).assert_holds(&[HANDED_OVER, FROZEN_TAKEN_OVER]);
    }
}

/// In this run, waiters poll the row.
#[test]
fn properties_hold_without_named_locks_if_the_clock_is_not_set() {
    let run = Run {
        rules: WITHOUT_QUEUE_LOCK,
        faults: 1,
        horizon: 6,
        ..Run::sound()
    };
    check("no queue lock", run).assert_holds(&[
        HANDED_OVER,
        DEAD_TAKEN_OVER,
        LOST_RESPONSE_SURVIVED,
    ]);
}

/// In these runs, a replica that lacks the latest writes replaces the server.
#[test]
fn fail_over_that_loses_a_grant_never_allows_a_second_command() {
    let (two, no_queue_lock) = ([2, 1], WITHOUT_QUEUE_LOCK);
    for (name, run) in [
        (
            "a fail-over",
            Run {
                faults: size(1, 0),
                ..AFTER_FAIL_OVER
            },
        ),
        (
            "a fail-over, two processes",
            Run {
                processes: two,
                faults: 0,
                horizon: size(8, 5),
                ..AFTER_FAIL_OVER
            },
        ),
        (
            "a fail-over, no queue lock",
            Run {
                rules: no_queue_lock,
                faults: 0,
                ..AFTER_FAIL_OVER
            },
        ),
    ] {
        check(name, run).assert_holds(&[HANDED_OVER, LOST_GRANT_OUTWAITED, GRANT_REASSERTED]);
    }
}

/// In this run, a backup of a cluster is restored. A contender notices the loss of each grant that it has read.
#[test]
fn restored_backup_without_a_known_grant_never_allows_a_second_command() {
    let run = Run {
        lost_writes: LostWrites::Restore,
        faults: size(1, 0),
        horizon: 3,
        ..AFTER_FAIL_OVER
    };
    check("a restored backup", run).assert_holds(&[HANDED_OVER, GRANT_REASSERTED]);
}

#[test]
fn restored_backup_without_a_grant_of_a_reminder_never_allows_a_second_command() {
    check("a restored backup and reminders", WITH_REMINDERS.until(1))
        .assert_holds(&[HANDED_OVER, LOST_GRANT_OUTWAITED]);
}

#[test]
fn reminder_that_is_only_displayed_is_detected() {
    let run = Run {
        variant: Variant::RemindersForgotten,
        ..WITH_REMINDERS
    };
    assert_broken("reminders are forgotten", run, EXCLUSION);
}

/// The first client runs two processes, so a waiter can read the grant of the second one only for a reminder.
const WITH_REMINDERS: Run = Run {
    lost_writes: LostWrites::Restore,
    reminders: true,
    processes: [2, 1],
    horizon: 3,
    ..AFTER_FAIL_OVER
};

/// This is a documented limit: the backup of a cluster that is restored contains the grant, but not its renewals,
/// and a contender has not read the renewals.
#[test]
fn restored_backup_without_unknown_renewals_allows_a_second_command() {
    let run = Run {
        lost_writes: LostWrites::Restore,
        faults: 0,
        ..AFTER_FAIL_OVER
    };
    assert_broken("a restored backup with an old lease", run, EXCLUSION);
}

#[test]
fn contender_that_does_not_notice_another_database_is_detected() {
    let run = Run {
        variant: Variant::DatabaseIgnored,
        ..AFTER_FAIL_OVER
    };
    assert_broken("the database is ignored", run, EXCLUSION);
}

#[test]
fn attempt_on_an_older_row_is_detected() {
    for lost_writes in [LostWrites::FailOver, LostWrites::Restore] {
        let run = Run {
            rules: Rules {
                last_read_is_ignored: true,
                ..Run::sound().rules
            },
            lost_writes,
            horizon: 3,
            ..AFTER_FAIL_OVER
        };
        assert_broken("the last read is ignored", run, EXCLUSION);
    }
}

const AFTER_FAIL_OVER: Run = Run {
    lost_writes: LostWrites::FailOver,
    faults: 1,
    horizon: 6,
    ..Run::sound()
};

/// This is the first of two documented limits: after the holder's connection breaks, a take-over relies on the server's
/// clock.
#[test]
fn clock_jump_after_a_broken_connection_allows_a_second_holder() {
    let run = Run {
        faults: 1,
        clock_steps: &[7],
        ..Run::sound()
    };
    assert_broken("a clock jump and a broken connection", run, EXCLUSION);
}

/// This is the second documented limit: if named locks do not work, a take-over relies on the server's clock.
#[test]
fn clock_jump_without_named_locks_allows_a_second_holder() {
    let run = Run {
        rules: WITHOUT_QUEUE_LOCK,
        faults: 0,
        clock_steps: &[7],
        ..Run::sound()
    };
    assert_broken("a clock jump and no queue lock", run, EXCLUSION);
}

const WITHOUT_QUEUE_LOCK: Rules = Rules {
    no_queue_lock: true,
    ..Run::sound().rules
};

/// Asserts that the checker finds a violation of `property` in `variant`.
fn assert_broken_by(
    variant: Variant,
    (faults, kinds, horizon): (u8, FaultKinds, Tick),
    property: &'static str,
) {
    let run = Run {
        variant,
        horizon,
        faults,
        kinds,
        ..Run::sound()
    };
    assert_broken(&format!("{variant:?}"), run, property);
}

fn assert_broken(name: &str, run: Run, property: &'static str) {
    search_for(property, name, run).assert_fails(property);
}

#[test]
fn deadline_measured_from_the_response_is_detected() {
    assert_broken_by(
        Variant::DeadlineFromResponse,
        (2, FaultKinds::StopsAndStalls, 5),
        EXCLUSION,
    );
}

#[test]
fn connection_reused_after_an_error_is_detected() {
    assert_broken_by(
        Variant::ConnectionReused,
        (2, FaultKinds::StopsAndStalls, 5),
        EXCLUSION,
    );
}

#[test]
fn owner_id_that_is_not_read_back_is_detected() {
    assert_broken_by(
        Variant::OwnerIdNotReadBack,
        (0, FaultKinds::All, 1),
        EXCLUSION,
    );
}

#[test]
fn grant_of_unknown_time_without_a_renewal_is_detected() {
    assert_broken_by(
        Variant::OldGrantTrusted,
        (2, FaultKinds::StopsAndStalls, 5),
        EXCLUSION,
    );
}

#[test]
fn revoked_record_taken_for_a_lease_is_detected() {
    let run = Run {
        variant: Variant::RevokedIsHeld,
        rules: Rules {
            revoked_is_held: true,
            ..Run::sound().rules
        },
        revocations: 1,
        faults: 1,
        horizon: 4,
        ..Run::sound()
    };
    assert_broken("revoked is held", run, REVOKED_NOT_RENEWED);
}

#[test]
fn parent_blocked_by_messages_is_detected() {
    let run = Run {
        variant: Variant::BlockedByMessages,
        faults: 0,
        horizon: 5,
        ..Run::sound()
    };
    assert_broken("blocked by messages", run, NOT_LOST);
}

#[test]
fn lost_lease_that_ends_as_success_is_detected() {
    for variant in [Variant::ExitStatusTrusted, Variant::ChangedRowsTrusted] {
        let run = Run {
            variant,
            revocations: 1,
            faults: 0,
            horizon: 4,
            ..Run::sound()
        };
        assert_broken(&format!("{variant:?}"), run, NO_FALSE_SUCCESS);
    }
}

#[test]
fn row_with_a_dead_session_of_a_healthy_holder_is_detected() {
    let run = Run {
        rules: Rules {
            session_is_not_updated: true,
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
        processes: [2, 2],
        ..Run::sound()
    };
    check("no fault", run).assert_holds(&[HANDED_OVER, HANDED_OFF]);
}

#[test]
fn missing_monitor_is_detected() {
    assert_broken_by(Variant::NoMonitor, (1, FaultKinds::All, 5), EXCLUSION);
    assert_broken_by(Variant::NoMonitor, (1, FaultKinds::All, 5), ROW_IS_HELD);
}

#[test]
fn command_that_survives_its_monitor_is_detected() {
    assert_broken_by(Variant::SurvivesMonitor, (2, FaultKinds::All, 5), EXCLUSION);
}

#[test]
fn start_without_a_clock_check_is_detected() {
    assert_broken_by(
        Variant::StartWithoutClockCheck,
        (1, FaultKinds::All, 5),
        EXCLUSION,
    );
}

#[test]
fn start_without_a_clock_check_breaks_token_order_and_deadline() {
    assert_broken_by(
        Variant::StartWithoutClockCheck,
        (1, FaultKinds::All, 5),
        TOKEN_ORDER,
    );
    assert_broken_by(
        Variant::StartWithoutClockCheck,
        (1, FaultKinds::All, 5),
        DEAD_BY_DEADLINE,
    );
}

#[test]
fn missing_margin_is_detected() {
    assert_broken_by(
        Variant::NoMargin,
        (2, FaultKinds::StopsAndStalls, 4),
        EXCLUSION,
    );
}

#[test]
fn release_by_the_monitor_before_the_tree_is_dead_is_detected() {
    assert_broken_by(
        Variant::ReleasedBeforeDeath,
        (1, FaultKinds::Deaths, 5),
        RELEASE_AFTER_DEATH,
    );
}

#[test]
fn release_before_the_tree_is_dead_is_detected() {
    assert_broken_by(
        Variant::EarlyRelease,
        (1, FaultKinds::All, 5),
        RELEASE_AFTER_DEATH,
    );
}

#[test]
fn takeover_by_the_server_clock_alone_is_detected() {
    let run = Run {
        rules: Rules {
            no_queue_lock: true,
            server_clock_suffices: true,
            ..Run::sound().rules
        },
        faults: 0,
        clock_steps: &[5],
        ..Run::sound()
    };
    assert_broken("the server's clock alone", run, EXCLUSION);
}

#[test]
fn queue_lock_taken_for_a_hand_off_is_detected() {
    let run = Run {
        rules: Rules {
            lost_queue_lock_is_hand_off: true,
            ..Run::sound().rules
        },
        faults: 1,
        kinds: FaultKinds::StopsAndStalls,
        ..Run::sound()
    };
    assert_broken("the queue lock alone", run, EXCLUSION);
}
