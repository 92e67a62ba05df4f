//! What must always hold, and what must be able to happen lest the rest be empty words.

use dlock::store::Question;
use stateright::Property;

use crate::client::{Client, Command, Front, Link, Wire};
use crate::server::{Raw, Session};
use crate::time::instant;
use crate::variant::{Kinds, Run, Variant};
use crate::world::World;

/// The promise itself.
pub(crate) const EXCLUSION: &str = "never two commands at once";
pub(crate) const ORDER: &str = "tokens grow in the order of starts";
pub(crate) const IN_TIME: &str = "no command is alive past its deadline";
pub(crate) const ROW_IS_OURS: &str = "a command alive has the row";
pub(crate) const HANDED_OVER: &str = "a lease is handed over";
pub(crate) const HANDED_OFF: &str = "a lease is granted on a hand-off";
pub(crate) const NO_FALSE_SUCCESS: &str = "no run that was told lost or revoked is a success";
pub(crate) const REVOKED_ENDS: &str = "a lease that an operator has ended is never renewed";
pub(crate) const KEPT: &str = "no lease is lost without a fault";
pub(crate) const SESSION_KNOWN: &str = "the row names the session by which its holder last read it";
pub(crate) const SETTLED: &str = "a waiter gives back a grant that it did not know of";
pub(crate) const DEAD_TAKEN_OVER: &str = "the lease of the dead is taken over";
pub(crate) const SURVIVED: &str = "a lost reply is survived";
pub(crate) const OWN_CLOCK: &str = "a waiter takes over by its own clock";
pub(crate) const FROZEN_TAKEN_OVER: &str = "the lease of the frozen is taken over";
pub(crate) const BROKEN_GIVEN_UP: &str = "a lease that was broken is given up by its holder";
pub(crate) const RELEASE_AFTER_DEATH: &str = "nothing is released before the tree is dead";

/// All of them, as the checker takes them.
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
        Property::always(ROW_IS_OURS, |_, world: &World| {
            world.clients.iter().enumerate().all(|(c, client)| {
                !client.is_running() || world.server.row.claim == Some(client.claim(c))
            })
        }),
        Property::always(RELEASE_AFTER_DEATH, |_, world: &World| {
            world.clients.iter().all(|client| {
                !(client.is_running() && matches!(client.front, Front::Leaving { .. }))
            })
        }),
        Property::sometimes(HANDED_OVER, |_, world: &World| {
            world.follows(|front| matches!(front, Front::Over { released: true }))
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
                    || !matches!(client.front, Front::Holding { .. })
                    || !client.link.as_ref().is_some_and(trusts)
                    || world.server.row.claim != Some(client.claim(c))
                    || world.server.holder_session() == Some(Session::current(c))
            })
        }),
        Property::sometimes(HANDED_OFF, |_, world: &World| {
            world.follows(|front| matches!(front, Front::Leaving { .. }))
        }),
        Property::sometimes(SETTLED, |run: &Run, world: &World| {
            run.breaks == 0
                || world.clients.iter().any(|client| {
                    let asked = client.link.as_ref().and_then(|link| link.asked.as_ref());
                    let is_acquiring = matches!(client.front, Front::Acquiring(_));
                    asked.is_some_and(|asked| {
                        is_acquiring && matches!(*asked.question, Question::Release(_))
                    })
                })
        }),
        Property::sometimes(DEAD_TAKEN_OVER, |_, world: &World| {
            world.follows(|front| matches!(front, Front::Over { released: false }))
        }),
        Property::sometimes(FROZEN_TAKEN_OVER, |_, world: &World| {
            world.follows(|front| matches!(front, Front::Holding { .. }))
        }),
        Property::sometimes(BROKEN_GIVEN_UP, |run: &Run, world: &World| {
            run.breaks == 0
                || world.clients.iter().any(|client| {
                    client.command == Command::Ended
                        && matches!(client.front, Front::Leaving { revoked: true, .. })
                })
        }),
        Property::sometimes(SURVIVED, |run: &Run, world: &World| {
            run.kinds == Kinds::Delays || world.survives()
        }),
        Property::sometimes(OWN_CLOCK, |_, world: &World| {
            world.clients.iter().enumerate().any(|(c, client)| {
                let claim = client.claim(c);
                let asked = client.link.as_ref().and_then(|link| link.asked.as_ref());
                asked.is_some_and(|asked| {
                    matches!(&*asked.question, Question::Attempt(wish) if wish.is_take_over())
                        && matches!(asked.wire, Wire::Reply(Raw::Row(look, true), _)
                            if look.claim == Some(claim))
                })
            })
        }),
    ]
}

impl World {
    /// Whether one command runs after the other client's was started and ended up like `like`.
    fn follows(&self, like: impl Fn(&Front) -> bool) -> bool {
        [(0, 1), (1, 0)].into_iter().any(|(before, after)| {
            let (before, after) = (&self.clients[before], &self.clients[after]);
            before.monitor.is_some() && like(&before.front) && after.is_running()
        })
    }

    /// Whether a command runs on a lease renewed on a second connection.
    fn survives(&self) -> bool {
        self.clients.iter().any(|client| {
            client.is_running() && client.late.is_some() && self.server.row.renewals > 0
        })
    }
}
