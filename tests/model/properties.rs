//! The properties that must always hold, and the events that must be possible. If these events were impossible, the
//! properties could hold trivially.

use dlock::lease::limit::Limit;
use dlock::outcome::RunOutcome;
use dlock::protocol::keeper::PhaseKind;
use dlock::store::{ReleaseRequest, Request};
use stateright::{Expectation, Property};

use crate::client::{Client, Command, Connection, EndedRun, Parent, Progress};
use crate::monitor::Monitor;
use crate::mutation::{Run, Variant};
use crate::server::{Raw, Row, Session, Statement};
use crate::time::instant;
use crate::world::World;

/// The main promise of dlock.
pub(crate) const EXCLUSION: &str = "no command runs beside more commands than its limit allows";
pub(crate) const TOKEN_ORDER: &str = "each command has a higher token than the command before";
pub(crate) const DEAD_BY_DEADLINE: &str = "no command is alive after its deadline";
pub(crate) const ROW_IS_HELD: &str = "the row contains the owner id of the live command";
pub(crate) const ONE_SLOT: &str = "no contender has two slots";
pub(crate) const SHARED_RUN: &str = "two commands run at the same time";
pub(crate) const HANDED_OVER: &str = "a lease is handed over";
pub(crate) const HANDED_OFF: &str = "a lease is granted on a hand-off";
pub(crate) const NO_FALSE_SUCCESS: &str = "no run with a lost or revoked lease is a success";
pub(crate) const REVOKED_NOT_RENEWED: &str = "a revoked lease is never renewed";
pub(crate) const NOT_LOST: &str = "no lease is lost without a fault of the server or of its holder";
pub(crate) const SESSION_KNOWN: &str =
    "the row contains the session of the holder's last confirmed renewal";
pub(crate) const UNKNOWN_GRANT_RELEASED: &str =
    "a waiter releases a grant whose response it did not get";
pub(crate) const DEAD_TAKEN_OVER: &str = "the lease of a dead holder is taken over";
pub(crate) const LOST_RESPONSE_SURVIVED: &str = "a holder keeps its lease after a lost response";
pub(crate) const OWN_CLOCK: &str = "a waiter takes over a lease by its own clock";
pub(crate) const FROZEN_TAKEN_OVER: &str = "the lease of a frozen holder is taken over";
pub(crate) const REVOKED_RELEASED: &str = "the holder of a revoked lease stops and releases it";
pub(crate) const LOST_GRANT_OUTWAITED: &str =
    "a waiter acquires the lease after the database has lost the latest writes";
pub(crate) const GRANT_REASSERTED: &str =
    "a holder keeps its lease after the database has lost its grant";
pub(crate) const IN_ORDER: &str =
    "no waiter is granted the lease before an earlier waiter that waits and was not let pass";
pub(crate) const PASSED_ONCE: &str = "no waiter lets the same waiter pass twice";
pub(crate) const PASSER_SERVED: &str =
    "a waiter that has let another one pass is granted the lease";
pub(crate) const ABANDONED_RELEASED: &str =
    "a command starts before the lease of a killed dlock would have ended";
pub(crate) const RELEASE_AFTER_DEATH: &str = "nothing is released before the tree is dead";

pub(crate) const NOT_RUN_AGAIN: &str = "no command starts after a success of --once is recorded";
pub(crate) const GRANTED_THOUGH_DONE: &str =
    "a contender releases a lease that it was granted after the success of another one";
pub(crate) const RELEASED_BY_HOLDER: &str = "a holder without a fault releases its lease";

pub(crate) const STATEMENTS_WITHIN_LIMIT: &str = "no command runs beside more commands and noted statements of earlier runs than its limit allows";
pub(crate) const NOTE_REMOVED: &str = "a holder removes a note in a row that nobody holds";
pub(crate) const STATEMENTS_ENDED: &str =
    "no noted statement of an earlier run is executed while a command runs";
pub(crate) const LEFT_STATEMENTS_CONTINUE: &str =
    "no statement of a command whose success is recorded is killed";
pub(crate) const OWN_STATEMENT_ENDED: &str = "a holder kills the statement of its own command";
pub(crate) const EARLIER_STATEMENT_ENDED: &str =
    "a command starts after the noted statement of a dead holder has ended";

/// Minimum number of renewals in a row whose grant was written again. No row has as many before.
const FIRST_REASSERTED: u32 = 1000;

/// Returns the properties that must always hold, and the events in `wanted`, as properties for the checker. The checker
/// would write each further finding of another event to its table of findings, which would take up to half of the time.
pub(crate) fn properties(wanted: &[&str]) -> Vec<Property<Run>> {
    let mut properties = statement_properties();
    properties.extend(lease_properties());
    properties.extend(lease_events());
    properties.retain(|property| {
        property.expectation == Expectation::Always || wanted.contains(&property.name)
    });
    properties
}

/// Returns the properties and events of statements that outlive their command.
fn statement_properties() -> Vec<Property<Run>> {
    vec![
        Property::always(STATEMENTS_WITHIN_LIMIT, |run: &Run, world: &World| {
            !world.is_over_a_limit_with_statements(run)
        }),
        Property::always(STATEMENTS_ENDED, |run: &Run, world: &World| {
            run.limits != [Limit::ONE; 2]
                || !world.any(|client| {
                    let survives = |statement: &Statement| {
                        statement.was_noted
                            && !statement.is_left
                            && Some(statement.token) != client.token()
                    };
                    client.waits_for_statements(run) && world.server.statements.iter().any(survives)
                })
        }),
        Property::always(LEFT_STATEMENTS_CONTINUE, |_, world: &World| {
            let mut statements = world.server.statements.iter();
            !statements.any(|statement| statement.is_left && statement.is_killed)
        }),
        Property::sometimes(OWN_STATEMENT_ENDED, |_, world: &World| {
            let has_killed = |request: &Request| {
                matches!(request, Request::Release(ReleaseRequest { run: Some(run), .. })
                    if run.sessions_ended > 0)
            };
            world.any(|client| client.is_releasing() && client.has_sent(has_killed))
        }),
        Property::sometimes(NOTE_REMOVED, |_, world: &World| {
            world.any(|client| client.has_sent(|it| matches!(it, Request::RemoveNote(_))))
        }),
        Property::sometimes(EARLIER_STATEMENT_ENDED, |_, world: &World| {
            let is_noted_earlier = |client: &Client| {
                let token = world.server.row.note.map(|note| note.token);
                token.is_some() && token != client.token()
            };
            world.any(|client| {
                client.is_running() && client.is_holding() && is_noted_earlier(client)
            }) && world.runs_after(|client| client.parent == Parent::Ended { released: false })
        }),
    ]
}

fn lease_properties() -> Vec<Property<Run>> {
    vec![
        Property::always(EXCLUSION, |run: &Run, world: &World| {
            !world.is_over_a_limit(run)
        }),
        Property::always(ONE_SLOT, |_, world: &World| {
            world.server.has_one_slot_for_each()
        }),
        Property::always(NOT_RUN_AGAIN, |_, world: &World| !world.ran_though_done),
        Property::always(RELEASED_BY_HOLDER, |_, world: &World| {
            !world.any(|client| {
                !client.had_fault
                    && client.monitor.is_some()
                    && client.parent == Parent::Ended { released: false }
            })
        }),
        Property::always(TOKEN_ORDER, |_, world: &World| !world.tokens_out_of_order),
        Property::always(DEAD_BY_DEADLINE, |run: &Run, world: &World| {
            let is_late = |monitor: Monitor| instant(world.now) > monitor.deadline.kill;
            run.variant == Variant::NoMonitor
                || !world.any(|client| client.is_running() && client.monitor.is_some_and(is_late))
        }),
        Property::always(ROW_IS_HELD, |_, world: &World| {
            world.lost_at.is_some()
                || !world.any(|client| client.is_running() && world.lease(client).is_none())
        }),
        Property::always(RELEASE_AFTER_DEATH, |_, world: &World| {
            !world.any(|client| {
                let sends_release = || client.has_sent(|it| matches!(it, Request::Release(_)));
                client.is_running() && (client.is_releasing() || sends_release())
            })
        }),
        Property::always(IN_ORDER, |_, world: &World| !world.server.has_overtaken),
        Property::always(PASSED_ONCE, |_, world: &World| {
            !world.server.has_passed_twice
        }),
        Property::always(NO_FALSE_SUCCESS, |_, world: &World| {
            !world.any(|client| client.false_success)
        }),
        Property::always(REVOKED_NOT_RENEWED, |_, world: &World| {
            !world.server.revoked_renewed
        }),
        Property::always(NOT_LOST, |_, world: &World| {
            !world.any(|client| !client.had_fault && !client.is_unharmed())
        }),
        Property::always(SESSION_KNOWN, |_, world: &World| {
            !world.any(|client| {
                let is_recorded =
                    |connection: &Connection| connection.alive && connection.session_is_recorded;
                !client.late_renewal
                    && client.is_holding()
                    && client.connection.as_ref().is_some_and(is_recorded)
                    && world.server.row.owner_id == Some(client.owner_id())
                    && world.server.row.session != Some(Session::current(client.number))
            })
        }),
    ]
}

fn lease_events() -> Vec<Property<Run>> {
    vec![
        Property::sometimes(SHARED_RUN, |_, world: &World| world.running() > 1),
        Property::sometimes(GRANTED_THOUGH_DONE, |_, world: &World| {
            world.any(|client| {
                client.is_releasing()
                    && client.monitor.is_none()
                    && world.server.row.owner_id == Some(client.owner_id())
                    && world.server.is_done()
            })
        }),
        Property::sometimes(PASSER_SERVED, |_, world: &World| {
            world.any(|client| {
                let has_let_pass = |pass: &(u8, u8)| pass.0 == client.owner_id();
                client.is_running() && world.server.let_pass.iter().any(has_let_pass)
            })
        }),
        Property::sometimes(HANDED_OVER, |_, world: &World| {
            world.runs_after(|client| client.parent == Parent::Ended { released: true })
        }),
        Property::sometimes(HANDED_OFF, |_, world: &World| {
            world.runs_after(Client::is_releasing)
        }),
        Property::sometimes(ABANDONED_RELEASED, |_, world: &World| {
            let is_left = |client: &Client| client.abandoned_until.is_some();
            world.any(is_left) && world.any(|client| !is_left(client) && client.is_running())
        }),
        Property::sometimes(UNKNOWN_GRANT_RELEASED, |_, world: &World| {
            world.any(|client| {
                client.phase() == Some(PhaseKind::Acquiring)
                    && client.has_sent(|it| matches!(it, Request::Release(_)))
            })
        }),
        Property::sometimes(DEAD_TAKEN_OVER, |_, world: &World| {
            world.runs_after(|client| client.parent == Parent::Ended { released: false })
        }),
        Property::sometimes(LOST_GRANT_OUTWAITED, |_, world: &World| {
            world.lost_at.is_some()
                && world.runs_after(|client| client.parent != Parent::NotStarted)
        }),
        Property::sometimes(GRANT_REASSERTED, |_, world: &World| {
            let is_reasserted = |row: &Row| row.renewals >= FIRST_REASSERTED;
            world.lost_at.is_some()
                && world.any(|client| {
                    client.is_running()
                        && client.is_unharmed()
                        && world.lease(client).is_some_and(is_reasserted)
                })
        }),
        Property::sometimes(FROZEN_TAKEN_OVER, |_, world: &World| {
            world.runs_after(Client::is_holding)
        }),
        Property::sometimes(REVOKED_RELEASED, |_, world: &World| {
            let is_revoked = |run: EndedRun| run.outcome == RunOutcome::Revoked;
            world.any(|client| {
                client.command == Command::Ended
                    && client.is_releasing()
                    && client.run.is_some_and(is_revoked)
            })
        }),
        Property::sometimes(LOST_RESPONSE_SURVIVED, |_, world: &World| {
            let is_renewed = |row: &Row| row.renewals > 0;
            world.any(|client| {
                client.is_running()
                    && client.late.is_some()
                    && world.lease(client).is_some_and(is_renewed)
            })
        }),
        Property::sometimes(OWN_CLOCK, |_, world: &World| {
            world.any(|client| {
                client.pending().is_some_and(|pending| {
                    matches!(&*pending.request, Request::TryAcquire(it) if it.is_take_over())
                        && matches!(pending.progress, Progress::Executed(Raw::Row(row, true), _)
                            if row.owner_id == Some(client.owner_id()))
                })
            })
        }),
    ]
}

impl World {
    fn any(&self, is_state: impl Fn(&Client) -> bool) -> bool {
        self.clients.iter().any(is_state)
    }

    /// Returns the row with the lease of `client`. None if no row contains its owner id.
    fn lease(&self, client: &Client) -> Option<&Row> {
        self.server.held_lease_of(client.owner_id())
    }

    /// Returns true if one client has started its command, it matches `is_state`, and the command of the other
    /// client runs.
    fn runs_after(&self, is_state: impl Fn(&Client) -> bool) -> bool {
        [(0, 1), (1, 0)].into_iter().any(|(before, after)| {
            let (before, after) = (&self.clients[before], &self.clients[after]);
            before.monitor.is_some() && is_state(before) && after.is_running()
        })
    }
}
