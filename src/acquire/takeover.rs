//! When a row may be taken that is another's, or that an operator keeps closed:
//!
//! - the lease lapsed [`GATE_ALLOWANCE`](crate::store::GATE_ALLOWANCE) ago by the server's clock and we
//!   have the gate that its holder had, or it lapsed [`ALLOWANCE`](crate::store::ALLOWANCE) ago;
//! - or it has not changed for a full ttl *on our own clock* since we first saw it: then under the
//!   condition that it still stands so, and no clock of the server is trusted;
//! - but none that is closed, by the server's clock.

use std::time::Duration;

use super::Acquire;
use crate::lease::instant::BootInstant;
use crate::store::{Remainder, Sighting, Version};

/// A version of the row, when we first saw it and how long its lease is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    version: Version,
    pub(super) since: BootInstant,
    ttl: Duration,
}

impl Watch {
    /// When it has stood for a full ttl on our own clock.
    pub(super) fn ripe(self) -> BootInstant {
        self.since + self.ttl
    }
}

impl Acquire {
    /// Since when the row has stood as it stands.
    pub(super) fn watch(&mut self, received: BootInstant, sighting: &Sighting) -> Watch {
        let watch = match self.watch {
            Some(watch) if watch.version == sighting.version => watch,
            // The lease that we see ends, at the latest, a ttl after the server showed it to us.
            _ => Watch {
                version: sighting.version,
                since: received,
                ttl: sighting.ttl,
            },
        };
        self.watch = Some(watch);
        watch
    }
}

/// When the row may be taken, as far as can be told from this look.
pub(super) fn takeable(
    received: BootInstant,
    seen: &Sighting,
    watch: Watch,
    allowance: Duration,
) -> BootInstant {
    let ripe = watch.ripe();
    // The allowance is for a command that may still run; there is none when the lease is only kept.
    let allowance = match seen.kept_until {
        Some(_) => Duration::ZERO,
        None => allowance,
    };
    let over = match (&seen.claim, seen.remainder) {
        (None, _) => received,
        (Some(_), Remainder::Left(left)) => ripe.min(received + left + allowance),
        (Some(_), Remainder::Lapsed(ago)) => ripe.min(received + allowance.saturating_sub(ago)),
    };
    match &seen.closed {
        Some(closed) => over.max(received + closed.left),
        None => over,
    }
}
