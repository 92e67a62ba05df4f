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

use crate::check::{assert_broken, assert_holds, size};
use crate::mutation::FaultKinds::{All, Breaks, Deaths, LateRenewals, Quits};
use crate::mutation::FaultKinds::{StopsAndQuits, StopsAndStalls};
use crate::mutation::{LostWrites, Run, Variant};
use crate::properties::{
    ABANDONED_RELEASED, DEAD_BY_DEADLINE, DEAD_TAKEN_OVER, EARLIER_STATEMENT_ENDED, EXCLUSION,
    FROZEN_TAKEN_OVER, GRANT_REASSERTED, GRANTED_THOUGH_DONE, HANDED_OFF, HANDED_OVER, IN_ORDER,
    LOST_GRANT_OUTWAITED, LOST_RESPONSE_SURVIVED, NO_FALSE_SUCCESS, NOT_LOST, NOT_RUN_AGAIN,
    NOTE_REMOVED, OWN_CLOCK, OWN_STATEMENT_ENDED, PASSED_ONCE, PASSER_SERVED, RELEASE_AFTER_DEATH,
    RELEASED_BY_HOLDER, REVOKED_NOT_RENEWED, REVOKED_RELEASED, ROW_IS_HELD, SESSION_KNOWN,
    SHARED_RUN, STATEMENTS_ENDED, STATEMENTS_WITHIN_LIMIT, TOKEN_ORDER, UNKNOWN_GRANT_RELEASED,
};
use crate::server::Rule;

const ONE_FAULT: Run = Run::sound().faults(1);

/// The faults are any two, and happen at any two times.
#[test]
fn two_dlock_processes_never_run_two_commands_despite_two_faults() {
    let events = &[
        HANDED_OVER,
        HANDED_OFF,
        DEAD_TAKEN_OVER,
        ABANDONED_RELEASED,
        FROZEN_TAKEN_OVER,
        LOST_RESPONSE_SURVIVED,
        OWN_CLOCK,
    ];
    // The last event needs a second fault, which is a broken connection.
    let events = &events[..size(7, 6)];
    assert_holds(Run::sound().faults(size(2, 1)).horizon(6), events);
}

/// The second dlock process of a client starts with the server state that the first process left.
#[test]
fn three_dlock_processes_never_run_two_commands_despite_one_fault() {
    let run = ONE_FAULT.processes([2, 1]).horizon(size(5, 4));
    let events = &[HANDED_OVER, DEAD_TAKEN_OVER, LOST_RESPONSE_SURVIVED];
    assert_holds(run, events);
}

#[test]
fn no_lease_is_lost_without_a_fault() {
    let run = Run::sound().faults(0).processes([2, 2]);
    assert_holds(run, &[HANDED_OVER, HANDED_OFF]);
}

/// These runs have no other parameters than the variant, the number and kinds of the faults, and the last tick.
#[test]
fn broken_variants_are_detected() {
    let all = |faults, horizon| Run::sound().faults(faults).horizon(horizon);
    let deaths = |faults, horizon| all(faults, horizon).kinds(Deaths);
    let stops = |faults, horizon| all(faults, horizon).kinds(StopsAndStalls);
    for (variant, run, failing) in [
        (Variant::DeadlineFromResponse, stops(2, 5), EXCLUSION),
        (Variant::ConnectionReused, stops(2, 5), EXCLUSION),
        (Variant::OwnerIdNotReadBack, all(0, 1), EXCLUSION),
        (Variant::OldGrantTrusted, stops(2, 5), EXCLUSION),
        (Variant::NoMargin, stops(2, 4), EXCLUSION),
        (Variant::SurvivesMonitor, deaths(2, 5), EXCLUSION),
        (Variant::LossForgotten, stops(1, 7), NO_FALSE_SUCCESS),
        (Variant::BlockedByMessages, all(0, 5), NOT_LOST),
        (Variant::EarlyRelease, all(1, 5), RELEASE_AFTER_DEATH),
        (
            Variant::ReleasedBeforeDeath,
            deaths(1, 5),
            RELEASE_AFTER_DEATH,
        ),
    ] {
        assert_broken(run.variant(variant), &[failing]);
    }
    let run = all(1, 5);
    assert_broken(run.variant(Variant::NoMonitor), &[EXCLUSION, ROW_IS_HELD]);
    assert_broken(
        run.variant(Variant::StartWithoutClockCheck),
        &[EXCLUSION, TOKEN_ORDER, DEAD_BY_DEADLINE],
    );
}

/// These servers have no other rule than the broken one.
#[test]
fn broken_rules_of_the_server_are_detected() {
    let by_clock = WITHOUT_QUEUE_LOCK.faults(0).clock_steps(&[5]);
    for (rule, run, failing) in [
        (
            Rule::SessionIsNotUpdated,
            ONE_FAULT.horizon(4),
            SESSION_KNOWN,
        ),
        (
            Rule::LostQueueLockIsHandOff,
            ONE_FAULT.kinds(StopsAndStalls),
            EXCLUSION,
        ),
        (Rule::ServerClockSuffices, by_clock, EXCLUSION),
    ] {
        assert_broken(run.rule(rule), &[failing]);
    }
}

/// A process with several locks holds one of them without a command, and renews it, while it waits for the next one.
#[test]
fn lease_that_is_held_before_its_command_never_allows_a_second_command() {
    let run = Run::sound().waits_for_others(true).horizon(size(6, 3));
    for run in [
        run.faults(1).revocations(1),
        run.faults(0).clock_steps(&[6]),
    ] {
        assert_holds(run, &[HANDED_OVER]);
    }
}

/// The limits of the two processes differ, or their leases exist at the same time.
#[test]
fn no_command_runs_beside_more_commands_than_its_limit_allows() {
    for limits in [[Limit::ONE, Limit::NONE], [Limit::NONE, Limit::ONE]] {
        let run = ONE_FAULT.limits(limits).horizon(size(6, 5));
        assert_holds(
            run,
            &[
                HANDED_OVER,
                DEAD_TAKEN_OVER,
                FROZEN_TAKEN_OVER,
                LOST_RESPONSE_SURVIVED,
            ],
        );
        assert_holds(run.rule(Rule::NoQueueLock), &[HANDED_OVER]);
    }
    let run = SLOTS.kinds(All).faults(1).horizon(size(4, 2));
    assert_holds(run, &[HANDED_OVER, SHARED_RUN, LOST_RESPONSE_SURVIVED]);
}

/// The faults of the other runs beside a lease in a slot.
#[test]
fn limits_hold_after_a_clock_that_is_set_or_with_a_third_process() {
    let shared = ONE_FAULT.limits([Limit::ONE, Limit::NONE]);
    let run = shared.horizon(size(5, 3)).processes([2, 1]);
    assert_holds(run, &[HANDED_OVER, DEAD_TAKEN_OVER]);
    let run = shared.horizon(size(5, 3)).clock_steps(&[6]);
    assert_holds(run.kinds(StopsAndQuits), &[HANDED_OVER]);
}

#[test]
fn limits_hold_after_a_fail_over_that_loses_grants_of_slots() {
    for limits in [[Limit::NONE, Limit::ONE], [Limit::NONE, TWO]] {
        let run = AFTER_FAIL_OVER.limits(limits).horizon(3);
        assert_holds(run.faults(size(1, 0)), &[HANDED_OVER, GRANT_REASSERTED]);
    }
}

#[test]
fn noted_statements_of_dead_holders_count_for_the_limits() {
    for limits in [[Limit::ONE, Limit::NONE], [Limit::NONE, Limit::ONE]] {
        let run = WITH_STATEMENT.limits(limits);
        assert_holds(run.until(3), &[HANDED_OVER, NOTE_REMOVED]);
        let broken = run.variant(Variant::EarlierStatementsIgnored);
        assert_broken(broken, &[STATEMENTS_WITHIN_LIMIT]);
    }
}

/// The first exclusive process is granted the lease beside a note in a slot, and gives up before it has removed the note.
#[test]
fn note_in_a_slot_outlives_the_next_holder() {
    let run = WITH_STATEMENT.limits([Limit::ONE, Limit::NONE]);
    let run = run.processes([2, 1]).faults(2).kinds(Quits);
    assert_holds(run.until(2), &[HANDED_OVER, NOTE_REMOVED]);
    let broken = run.rule(Rule::NotedSlotsAreNotMarked);
    assert_broken(broken, &[STATEMENTS_WITHIN_LIMIT]);
}

#[test]
fn broken_rules_of_limits_are_detected() {
    let beside_one = SLOTS.limits([Limit::NONE, Limit::ONE]).earlier_holder(None);
    assert_holds(SLOTS, &[]);
    assert_holds(beside_one, &[]);
    let dead = beside_one.faults(1).horizon(6).clock_steps(&[6]);
    for (rule, run, failing) in [
        (Rule::OnlyOwnLimitCounts, SLOTS, EXCLUSION),
        (Rule::SlotKeepsToken, SLOTS, TOKEN_ORDER),
        (Rule::SharedRecordIsFree, beside_one, EXCLUSION),
        (Rule::DeadSlotMayBeRenewed, dead, ROW_IS_HELD),
    ] {
        assert_broken(run.rule(rule), &[failing]);
    }
}

/// In this run, a third client has a lease in a slot.
const SLOTS: Run = Run::sound()
    .limits([TWO, Limit::NONE])
    .earlier_holder(Some(Limit::NONE))
    .faults(0)
    .kinds(Breaks)
    .horizon(4);

const TWO: Limit = match NonZeroU32::new(2) {
    Some(two) => Limit::new(two),
    None => Limit::ONE,
};

/// dlock may be killed or frozen, and the program may read no event after a grant or a renewal.
#[test]
fn program_with_a_published_deadline_never_works_beside_the_next_command() {
    let programs = ONE_FAULT.holds(true).horizon(7);
    assert_holds(programs.until(5), &[HANDED_OVER, FROZEN_TAKEN_OVER]);
    let run = programs.limits([Limit::NONE, Limit::ONE]).until(5);
    assert_holds(run, &[HANDED_OVER]);
    let run = programs.revocations(1);
    assert_holds(run.until(5), &[HANDED_OVER, REVOKED_RELEASED]);
    for variant in [
        // The program does not compare the deadline with its clock.
        Variant::NoMonitor,
        Variant::DeadlineFromResponse,
        Variant::ReleasedAtLoss,
    ] {
        assert_broken(run.variant(variant), &[EXCLUSION]);
    }
}

/// In this run, two clients wait for a third one, and their connections break.
#[test]
fn waiters_are_served_in_order_although_connections_break() {
    let queue = Run::sound().earlier_holder(Some(Limit::ONE)).kinds(Breaks);
    let queue = queue.horizon(5);
    assert_holds(queue.until(4), &[PASSER_SERVED]);
    for (rule, failing) in [
        (Rule::MarksAreMissing, IN_ORDER),
        (Rule::PassesAreForgotten, PASSED_ONCE),
    ] {
        assert_broken(queue.rule(rule), &[failing]);
    }
}

#[test]
fn revoked_lease_never_allows_a_second_command() {
    let run = ONE_FAULT.revocations(1);
    assert_holds(
        run.horizon(size(6, 4)),
        &[
            HANDED_OVER,
            LOST_RESPONSE_SURVIVED,
            REVOKED_RELEASED,
            UNKNOWN_GRANT_RELEASED,
        ],
    );
    let broken = run
        .variant(Variant::RevokedIsHeld)
        .rule(Rule::RevokedIsHeld);
    assert_broken(broken.horizon(4), &[REVOKED_NOT_RENEWED]);
    let without_fault = run.faults(0);
    for variant in [Variant::ExitStatusTrusted, Variant::ChangedRowsTrusted] {
        let broken = without_fault.variant(variant).horizon(4);
        assert_broken(broken, &[NO_FALSE_SUCCESS]);
    }
    // The queue lock does not work. Otherwise, the holder would keep it and prevent a second grant.
    let broken = without_fault
        .variant(Variant::FreedByOperator)
        .rule(Rule::NoQueueLock);
    assert_broken(broken, &[EXCLUSION]);
}

/// A read over a new connection may fail, or find another server although the address has not moved.
#[test]
fn checks_of_the_address_never_allow_a_second_command() {
    let run = ONE_FAULT.checks_address(true).horizon(size(5, 4));
    assert_holds(
        run,
        &[
            HANDED_OVER,
            HANDED_OFF,
            DEAD_TAKEN_OVER,
            LOST_RESPONSE_SURVIVED,
        ],
    );
}

/// In this run, each command runs with `--once`, and may fail.
#[test]
fn command_with_once_never_starts_after_a_success() {
    let once = ONE_FAULT.once(true).horizon(5);
    assert_holds(once, &[HANDED_OVER, GRANTED_THOUGH_DONE]);
    let broken = once.variant(Variant::SuccessAfterReadIgnored);
    assert_broken(broken, &[NOT_RUN_AGAIN]);
    let in_slots = once.limits([Limit::NONE; 2]);
    assert_holds(in_slots.horizon(size(5, 3)), &[SHARED_RUN]);
    let broken = in_slots.faults(0).rule(Rule::OnlyOwnSuccessCounts);
    assert_broken(broken, &[RELEASED_BY_HOLDER]);
}

/// In this run, the server refuses to write the history.
#[test]
fn lease_is_released_although_the_history_cannot_be_written() {
    let run = ONE_FAULT.rule(Rule::HistoryIsRefused).horizon(5);
    assert_holds(run, &[HANDED_OVER]);
    let broken = run.variant(Variant::HistoryRequired);
    assert_broken(broken, &[RELEASED_BY_HOLDER]);
}

/// In this run, an operator may remove the row at any time at which nobody uses it.
#[test]
fn removed_row_never_makes_a_token_smaller() {
    let run = ONE_FAULT.prunes(1).horizon(6);
    assert_holds(
        run,
        &[
            HANDED_OVER,
            LOST_RESPONSE_SURVIVED,
            DEAD_TAKEN_OVER,
            UNKNOWN_GRANT_RELEASED,
        ],
    );
    let broken = run.rule(Rule::LowestTokenIsMissing);
    assert_broken(broken, &[TOKEN_ORDER]);
}

/// In this run, a command may start a statement on the server, which outlives the command and all dlock processes.
#[test]
fn noted_statement_never_outlives_the_start_of_the_next_command() {
    for policies in [[SessionPolicy::Kill; 2], [SessionPolicy::Wait; 2]] {
        let run = WITH_STATEMENT.policies(policies).horizon(size(6, 5));
        let events = &[HANDED_OVER, EARLIER_STATEMENT_ENDED, ABANDONED_RELEASED];
        assert_holds(run, events);
    }
    // The holder ends the statement of its own command while its connection has a fault.
    let run = WITH_STATEMENT.kinds(All).horizon(size(4, 3));
    let events = &[HANDED_OVER, OWN_STATEMENT_ENDED];
    assert_holds(run, events);
}

/// The client that ignores sessions removes no note, so the third command waits for the statement of the first.
#[test]
fn client_that_ignores_sessions_does_not_remove_the_note() {
    let policies = [SessionPolicy::Kill, SessionPolicy::Ignore];
    let run = WITH_STATEMENT.policies(policies).processes([2, 1]);
    assert_holds(run.kinds(Quits).horizon(3), &[HANDED_OVER]);
}

#[test]
fn statement_of_a_successful_command_is_not_killed() {
    let run = WITH_STATEMENT.processes([2, 1]).faults(0).horizon(4);
    assert_holds(run, &[HANDED_OVER, OWN_STATEMENT_ENDED]);
}

/// The last run shows a limit: a renewal that the server executes late, after a newer renewal, removes the sessions that
/// only the newer one has noted. The next renewal notes them again.
#[test]
fn noted_statement_that_is_ignored_or_removed_is_detected() {
    let late = WITH_STATEMENT.statements(2).faults(2).kinds(LateRenewals);
    for run in [
        WITH_STATEMENT.variant(Variant::EarlierStatementsIgnored),
        WITH_STATEMENT.variant(Variant::NoteRemovedTooEarly),
        WITH_STATEMENT.rule(Rule::GrantRemovesNote),
        late.horizon(2),
    ] {
        assert_broken(run, &[STATEMENTS_ENDED]);
    }
}

const WITH_STATEMENT: Run = ONE_FAULT
    .statements(1)
    .policies([SessionPolicy::Kill; 2])
    .kinds(Deaths)
    .horizon(6);

/// dlock(7) promises that a step of the server's clock does not create a second holder while the holder's session has the
/// queue lock.
#[test]
fn clock_jump_of_the_server_never_allows_a_second_holder() {
    for clock_steps in [&[7, -7], &[-7, 7]] {
        let run = ONE_FAULT.kinds(StopsAndQuits).clock_steps(clock_steps);
        let events = &[HANDED_OVER, FROZEN_TAKEN_OVER];
        assert_holds(run.horizon(size(7, 5)), events);
    }
}

/// These are two documented limits: after the holder's connection breaks, and if named locks do not work, a take-over
/// relies on the server's clock.
#[test]
fn clock_jump_without_the_queue_lock_of_the_holder_allows_a_second_holder() {
    let run = ONE_FAULT.clock_steps(&[7]);
    assert_broken(run, &[EXCLUSION]);
    let run = run.faults(0).rule(Rule::NoQueueLock);
    assert_broken(run, &[EXCLUSION]);
}

/// In this run, waiters poll the row.
#[test]
fn properties_hold_without_named_locks_if_the_clock_is_not_set() {
    let run = WITHOUT_QUEUE_LOCK.faults(1).horizon(6);
    let events = &[HANDED_OVER, DEAD_TAKEN_OVER, LOST_RESPONSE_SURVIVED];
    assert_holds(run, events);
}

const WITHOUT_QUEUE_LOCK: Run = Run::sound().rule(Rule::NoQueueLock);

/// In these runs, a replica that lacks the latest writes replaces the server.
#[test]
fn fail_over_that_loses_a_grant_never_allows_a_second_command() {
    let without_fault = AFTER_FAIL_OVER.faults(0);
    for run in [
        AFTER_FAIL_OVER.faults(size(1, 0)),
        without_fault.processes([2, 1]).horizon(size(8, 5)),
        without_fault.rule(Rule::NoQueueLock),
    ] {
        assert_holds(run, &[HANDED_OVER, LOST_GRANT_OUTWAITED, GRANT_REASSERTED]);
    }
    let broken = AFTER_FAIL_OVER.variant(Variant::DatabaseIgnored);
    assert_broken(broken, &[EXCLUSION]);
}

/// In this run, a backup of a cluster is restored. A contender notices the loss of each grant that it has read. This is a
/// documented limit: if the backup contains the grant, but not its renewals, and a contender has not read the renewals,
/// the contender notices nothing.
#[test]
fn restored_backup_allows_a_second_command_only_without_unknown_renewals() {
    let run = AFTER_FAIL_OVER.lost_writes(LostWrites::Restore);
    assert_holds(
        run.faults(size(1, 0)).horizon(3),
        &[HANDED_OVER, GRANT_REASSERTED],
    );
    assert_broken(run.faults(0), &[EXCLUSION]);
}

/// The first client runs two processes, so a waiter can read the grant of the second one only for a reminder.
#[test]
fn restored_backup_without_a_grant_of_a_reminder_never_allows_a_second_command() {
    let run = AFTER_FAIL_OVER.lost_writes(LostWrites::Restore);
    let run = run.reminders(true).processes([2, 1]).horizon(3);
    assert_holds(run.until(1), &[HANDED_OVER, LOST_GRANT_OUTWAITED]);
    let broken = run.variant(Variant::RemindersForgotten);
    assert_broken(broken, &[EXCLUSION]);
}

#[test]
fn attempt_on_an_older_row_is_detected() {
    for lost_writes in [LostWrites::FailOver, LostWrites::Restore] {
        let run = AFTER_FAIL_OVER.lost_writes(lost_writes).horizon(3);
        let broken = run.rule(Rule::LastReadIsIgnored);
        assert_broken(broken, &[EXCLUSION]);
    }
}

const AFTER_FAIL_OVER: Run = ONE_FAULT.lost_writes(LostWrites::FailOver).horizon(6);
