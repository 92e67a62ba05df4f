//! The protocol, checked in every order in which things can happen: two clients, one server, and up
//! to two faults at any two moments.
//!
//! The decisions are those of the program itself: `Acquire`, `Renewals`, `Supervisor` and
//! `Timing::deadline` run in here as they are (`client`,
//! `monitor`). What stands around them in the program is
//! modelled: the statements' conditions on the row and the gate (`server`), connections, and what
//! the threads and the monitor do with what the machines say (`world`, `events`). A variant breaks one rule
//! around them, and the checker has to find what comes of it (`variant`).
//!
//! Modelled: requests and replies that are lost, held up, executed late or twice; errors in place of the
//! reply to a request that was executed; connections that
//! break, with the server noticing at any later time; a server that restarts and one that ends idle
//! sessions; its clock set forward and back; fronts that are killed, or stopped for any time;
//! monitors that are killed; commands that end at any time; waiters that give up; an operator who
//! ends a lease.
//!
//! Time goes in ticks (`time`), up to a last one, and a lease has four. Within a tick everything
//! happens in any order. Whoever is not stopped or held up does in a tick what is due in it; to be
//! late is a fault. A fault that no order of events could tell from a later one is not tried at the
//! earlier moment. Killing takes up to one tick, which is the margin.
//!
//! Not modelled:
//! - A monitor that is stopped, or killed together with its front: nobody promises anything then.
//! - Clocks of unequal rate: the margin, which is for them too, is all used up by the killing.
//! - The monitor's own look at the clock before it starts the command is taken for granted; so is
//!   that the pipe to it loses nothing.
//! - The line beyond two, `TurnedAway`, places whose sessions are gone, wait limits, other ttls.
//! - Several servers, and rows that were lost: there the token alone helps.
//! - That anything happens in the end. That it can happen is checked; tests on servers do the rest.
mod check;
mod claims;
mod client;
mod events;
mod monitor;
mod replies;
mod server;
mod time;
mod variant;
mod world;

use crate::check::{check, search_for};
use crate::claims::{
    BROKEN_GIVEN_UP, DEAD_TAKEN_OVER, EXCLUSION, FROZEN_TAKEN_OVER, HANDED_OFF, HANDED_OVER,
    IN_TIME, KEPT, NO_FALSE_SUCCESS, ORDER, OWN_CLOCK, RELEASE_AFTER_DEATH, REVOKED_ENDS,
    ROW_IS_OURS, SESSION_KNOWN, SETTLED, SURVIVED,
};
use crate::server::Rules;
use crate::time::Tick;
use crate::variant::{Kinds, Run, Variant};

/// Two faults of any kind at any two moments.
#[test]
fn two_dlocks_never_run_two_commands_whatever_two_things_go_wrong() {
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

/// The second dlock of a client meets what the first one left behind.
#[test]
fn nor_do_three_dlocks_of_which_two_belong_to_one_client_when_one_thing_goes_wrong() {
    let run = Run {
        faults: 1,
        lives: [2, 1],
        horizon: 5,
        ..Run::sound()
    };
    check("three dlocks", run).assert_holds(&[HANDED_OVER, DEAD_TAKEN_OVER, SURVIVED]);
}

/// Whoever ends it, and whenever.
#[test]
fn a_lease_that_an_operator_ends_makes_no_second_command() {
    let run = Run {
        breaks: 1,
        faults: 1,
        horizon: 6,
        ..Run::sound()
    };
    check("an operator", run).assert_holds(&[HANDED_OVER, SURVIVED, BROKEN_GIVEN_UP, SETTLED]);
}

/// Where there is a gate, its holder has it still; where there is none, nothing stands in the way.
#[test]
fn a_row_that_is_freed_by_hand_while_the_command_runs_is_found() {
    let run = Run {
        variant: Variant::FreedByHand,
        rules: WITHOUT_GATE,
        breaks: 1,
        faults: 0,
        ..Run::sound()
    };
    assert_broken("freed by hand", run, EXCLUSION);
}

/// As long as the holder's connection stands: that is what the manual promises.
#[test]
fn no_step_of_the_servers_clock_makes_a_second_holder() {
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

/// A waiter that has no gate looks at the row.
#[test]
fn it_all_holds_on_a_server_without_named_locks_whose_clock_stands() {
    let run = Run {
        rules: WITHOUT_GATE,
        faults: 1,
        horizon: 6,
        ..Run::sound()
    };
    check("no gate", run).assert_holds(&[HANDED_OVER, DEAD_TAKEN_OVER, SURVIVED]);
}

/// Two limits that the manual names: there the server's clock is trusted, and the model agrees.
#[test]
fn a_clock_set_forward_after_the_connection_broke_makes_a_second_holder() {
    let run = Run {
        faults: 1,
        steps: &[7],
        ..Run::sound()
    };
    assert_broken("a step and a broken connection", run, EXCLUSION);
}

#[test]
fn a_clock_set_forward_makes_a_second_holder_where_there_are_no_named_locks() {
    let run = Run {
        rules: WITHOUT_GATE,
        faults: 0,
        steps: &[7],
        ..Run::sound()
    };
    assert_broken("a step and no gate", run, EXCLUSION);
}

const WITHOUT_GATE: Rules = Rules {
    no_gate: true,
    ..Run::sound().rules
};

/// What the checker must find, or it is blind: each is the protocol without one of its rules.
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
fn a_deadline_counted_from_the_reply_is_found() {
    assert_broken_by(Variant::DeadlineFromReply, (2, Kinds::Halts, 5), EXCLUSION);
}

#[test]
fn a_connection_used_on_after_an_error_is_found() {
    assert_broken_by(Variant::ConnectionKept, (2, Kinds::Halts, 5), EXCLUSION);
}

#[test]
fn a_claim_that_is_not_read_back_is_found() {
    assert_broken_by(Variant::OkBelieved, (0, Kinds::All, 1), EXCLUSION);
}

/// R1.
#[test]
fn a_grant_of_unknown_time_that_counts_without_a_renewal_is_found() {
    assert_broken_by(Variant::OldGrantBelieved, (2, Kinds::Halts, 5), EXCLUSION);
}

/// R2.
#[test]
fn a_revoked_record_that_is_taken_for_a_lease_is_found() {
    let run = Run {
        variant: Variant::RevokedIsOurs,
        rules: Rules {
            revoked_is_ours: true,
            ..Run::sound().rules
        },
        breaks: 1,
        faults: 1,
        horizon: 4,
        ..Run::sound()
    };
    assert_broken("revoked is ours", run, REVOKED_ENDS);
}

/// R3.
#[test]
fn a_parent_that_messages_hold_up_is_found() {
    let run = Run {
        variant: Variant::BlockedByMessages,
        faults: 0,
        horizon: 5,
        ..Run::sound()
    };
    assert_broken("blocked by messages", run, KEPT);
}

/// R4 and R9.
#[test]
fn a_lost_lease_that_ends_as_a_success_is_found() {
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

/// R5.
#[test]
fn a_row_that_names_a_dead_session_of_a_healthy_holder_is_found() {
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
fn without_a_fault_no_lease_is_lost() {
    let run = Run {
        faults: 0,
        lives: [2, 2],
        ..Run::sound()
    };
    check("no fault", run).assert_holds(&[HANDED_OVER, HANDED_OFF]);
}

#[test]
fn a_missing_monitor_is_found() {
    assert_broken_by(Variant::NoMonitor, (1, Kinds::All, 5), EXCLUSION);
    assert_broken_by(Variant::NoMonitor, (1, Kinds::All, 5), ROW_IS_OURS);
}

#[test]
fn a_start_without_a_look_at_the_clock_is_found() {
    assert_broken_by(Variant::BlindStart, (1, Kinds::All, 5), EXCLUSION);
}

#[test]
fn a_late_start_breaks_the_order_of_tokens_and_the_deadline_too() {
    assert_broken_by(Variant::BlindStart, (1, Kinds::All, 5), ORDER);
    assert_broken_by(Variant::BlindStart, (1, Kinds::All, 5), IN_TIME);
}

#[test]
fn a_missing_margin_is_found() {
    assert_broken_by(Variant::NoMargin, (2, Kinds::Halts, 4), EXCLUSION);
}

#[test]
fn a_release_before_the_tree_is_dead_is_found() {
    assert_broken_by(
        Variant::EarlyRelease,
        (1, Kinds::All, 5),
        RELEASE_AFTER_DEATH,
    );
}

#[test]
fn a_take_over_by_the_servers_clock_alone_is_found() {
    let run = Run {
        rules: Rules {
            no_gate: true,
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
fn a_gate_that_is_taken_for_a_hand_off_is_found() {
    let run = Run {
        rules: Rules {
            gate_alone: true,
            ..Run::sound().rules
        },
        faults: 1,
        kinds: Kinds::Halts,
        ..Run::sound()
    };
    assert_broken("the gate alone", run, EXCLUSION);
}
