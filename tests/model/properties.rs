//! The claims that must always hold, and the events that must be possible so that the claims are not vacuous.

use dlock::store::Request;
use stateright::Property;

use crate::client::{Client, Command, InFlight, Link, Parent};
use crate::mutation::{Kinds, Run, Variant};
use crate::server::{Raw, Session};
use crate::time::instant;
use crate::world::World;

/// The promise of dlock.
pub(crate) const EXCLUSION: &str = "never two commands at once";
pub(crate) const ORDER: &str = "tokens grow in the order of starts";
pub(crate) const IN_TIME: &str = "no command is alive past its deadline";
pub(crate) const ROW_IS_HELD: &str = "the row names the owner id of a live command";
pub(crate) const HANDED_OVER: &str = "a lease is handed over";
pub(crate) const HANDED_OFF: &str = "a lease is granted on a hand-off";
pub(crate) const NO_FALSE_SUCCESS: &str = "no run whose lease was lost or revoked is a success";
pub(crate) const REVOKED_ENDS: &str = "a revoked lease is never renewed";
pub(crate) const KEPT: &str = "no lease is lost without a fault";
pub(crate) const SESSION_KNOWN: &str = "the row names the session by which its holder last read it";
pub(crate) const SETTLED: &str = "a waiter releases a grant that it did not know of";
pub(crate) const DEAD_TAKEN_OVER: &str = "the lease of a dead holder is taken over";
pub(crate) const SURVIVED: &str = "a holder survives a lost response";
pub(crate) const OWN_CLOCK: &str = "a waiter takes over by its own clock";
pub(crate) const FROZEN_TAKEN_OVER: &str = "the lease of a frozen holder is taken over";
pub(crate) const REVOKED_GIVEN_UP: &str = "a revoked lease is given up by its holder";
pub(crate) const RELEASE_AFTER_DEATH: &str = "nothing is released before the tree is dead";

/// Returns all claims and events as properties for the checker.
pub(crate) fn properties() -> Vec<Property<Run>> {
    vec![
        Property::always(EXCLUSION, |_, world: &World| world.running() <= 1),
        Property::always(ORDER, |_, world: &World| !world.disorder),
        Property::always(IN_TIME, |run: &Run, world: &World| {
            run.variant == Variant::NoMonitor
                || world.clients.iter().all(|client| {
                    !client.is_running()
                        || client
                            .monitor
                            .is_none_or(|m| instant(world.now) <= m.deadline.kill)
                })
        }),
        Property::always(ROW_IS_HELD, |_, world: &World| {
            world.clients.iter().enumerate().all(|(c, client)| {
                !client.is_running() || world.server.row.owner_id == Some(client.owner_id(c))
            })
        }),
        Property::always(RELEASE_AFTER_DEATH, |_, world: &World| {
            world.clients.iter().all(|client| {
                !(client.is_running() && matches!(client.parent, Parent::Leaving { .. }))
            })
        }),
        Property::sometimes(HANDED_OVER, |_, world: &World| {
            world.follows(|parent| matches!(parent, Parent::Over { released: true }))
        }),
        Property::always(NO_FALSE_SUCCESS, |_, world: &World| {
            !world.clients.iter().any(|client| client.false_success)
        }),
        Property::always(REVOKED_ENDS, |_, world: &World| {
            !world.server.revoked_renewed
        }),
        Property::always(KEPT, |run: &Run, world: &World| {
            let may_be_lost = run.faults > 0 || run.breaks > 0 || !run.steps.is_empty();
            may_be_lost || world.clients.iter().all(Client::is_unharmed)
        }),
        Property::always(SESSION_KNOWN, |_, world: &World| {
            let mut clients = world.clients.iter().enumerate();
            clients.all(|(c, client)| {
                let trusts = |link: &Link| link.alive && link.trusted;
                client.late_renewal
                    || !matches!(client.parent, Parent::Holding { .. })
                    || !client.link.as_ref().is_some_and(trusts)
                    || world.server.row.owner_id != Some(client.owner_id(c))
                    || world.server.holder_session() == Some(Session::current(c))
            })
        }),
        Property::sometimes(HANDED_OFF, |_, world: &World| {
            world.follows(|parent| matches!(parent, Parent::Leaving { .. }))
        }),
        Property::sometimes(SETTLED, |run: &Run, world: &World| {
            run.breaks == 0
                || world.clients.iter().any(|client| {
                    let asked = client.link.as_ref().and_then(|link| link.asked.as_ref());
                    let is_acquiring = matches!(client.parent, Parent::Acquiring(_));
                    asked.is_some_and(|asked| {
                        is_acquiring && matches!(*asked.request, Request::Release(_))
                    })
                })
        }),
        Property::sometimes(DEAD_TAKEN_OVER, |_, world: &World| {
            world.follows(|parent| matches!(parent, Parent::Over { released: false }))
        }),
        Property::sometimes(FROZEN_TAKEN_OVER, |_, world: &World| {
            world.follows(|parent| matches!(parent, Parent::Holding { .. }))
        }),
        Property::sometimes(REVOKED_GIVEN_UP, |run: &Run, world: &World| {
            run.breaks == 0
                || world.clients.iter().any(|client| {
                    client.command == Command::Ended
                        && matches!(client.parent, Parent::Leaving { revoked: true, .. })
                })
        }),
        Property::sometimes(SURVIVED, |run: &Run, world: &World| {
            run.kinds == Kinds::Delays || world.survives()
        }),
        Property::sometimes(OWN_CLOCK, |_, world: &World| {
            world.clients.iter().enumerate().any(|(c, client)| {
                let owner_id = client.owner_id(c);
                let asked = client.link.as_ref().and_then(|link| link.asked.as_ref());
                asked.is_some_and(|asked| {
                    matches!(&*asked.request, Request::TryAcquire(request) if request.is_take_over())
                        && matches!(asked.wire, InFlight::Reply(Raw::Row(look, true), _)
                            if look.owner_id == Some(owner_id))
                })
            })
        }),
    ]
}

impl World {
    /// Returns true if a client's command runs after the other client's was started, and that client's parent matches
    /// `like`.
    fn follows(&self, like: impl Fn(&Parent) -> bool) -> bool {
        [(0, 1), (1, 0)].into_iter().any(|(before, after)| {
            let (before, after) = (&self.clients[before], &self.clients[after]);
            before.monitor.is_some() && like(&before.parent) && after.is_running()
        })
    }

    /// Returns true if a command runs on a lease that was renewed while a request on a dropped connection may still
    /// arrive.
    fn survives(&self) -> bool {
        self.clients.iter().any(|client| {
            client.is_running() && client.late.is_some() && self.server.row.renewals > 0
        })
    }
}
