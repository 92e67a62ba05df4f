//! The contract of a store, on which the protocol relies. Each clause runs on the model's server, and on each kind of real
//! server.

use std::num::NonZeroU32;
use std::time::Duration;

use dlock::lease::limit::Limit;
use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::{
    AcquireMode, AcquireRequest, Contender, Expiry, LastRead, LockRecord, Loss, QueueEntry,
    QueueLock, Reassertion, ReleaseRequest, RenewRequest, Request, Response, Slot, Store, Version,
};

/// A server with one action, which nobody has used yet.
pub(crate) trait Scene {
    fn connect(&self, number: u8) -> (Box<dyn Store>, Contender);
    fn owner_id(&self, number: u8) -> OwnerId;
    /// Moves the end of the lease to this time ago by the server's clock, rounded up to what the server can count.
    fn expire(&self, ago: Duration);
    fn revoke(&self);
    /// Replaces the record by one in which the action was never granted.
    fn lose_record(&self);
}

pub(crate) type Clause = fn(&dyn Scene);

pub(crate) const CLAUSES: [Clause; 10] = [
    free_action_is_granted_to_one_contender_and_reported_to_the_other,
    lease_is_renewed_and_released_only_by_its_owner,
    renewed_lease_is_not_taken_over_with_a_stale_version,
    renewal_revives_an_expired_lease_that_was_not_taken_over,
    revoked_record_has_no_holder_and_only_its_owner_frees_it,
    lost_grant_is_written_only_to_an_older_row,
    slots_are_granted_up_to_the_smallest_limit,
    exclusive_lease_and_slots_exclude_each_other_until_the_last_slot_is_released,
    slot_of_a_dead_holder_is_freed_unless_it_was_renewed,
    lost_grants_of_slots_are_written_again_in_any_order,
];

/// A contender with its own connection. The contract must hold without the queue lock. Other tests cover the queue lock.
pub(crate) struct Peer {
    pub(crate) store: Box<dyn Store>,
    pub(crate) contender: Contender,
    pub(crate) owner_id: OwnerId,
}

pub(crate) fn attempt(owner_id: OwnerId, mode: AcquireMode) -> Request {
    Request::TryAcquire(AcquireRequest {
        owner_id,
        mode,
        queue_lock: QueueLock::Unavailable,
        last_read: None,
        in_order: false,
        prune_dead: mode != AcquireMode::IfFree,
    })
}

impl Peer {
    pub(crate) fn new(scene: &dyn Scene, number: u8) -> Self {
        let (store, contender) = scene.connect(number);
        let owner_id = scene.owner_id(number);
        Self {
            store,
            contender,
            owner_id,
        }
    }

    /// Returns a contender whose leases allow `count` leases at once. 0 is no limit.
    pub(crate) fn with_limit(scene: &dyn Scene, number: u8, count: u32) -> Self {
        let mut peer = Self::new(scene, number);
        peer.contender.limit = NonZeroU32::new(count).map_or(Limit::NONE, Limit::new);
        peer
    }

    #[track_caller]
    pub(crate) fn send(&mut self, request: &Request) -> Response {
        let response = self.store.request(&self.contender, request);
        assert!(response.sent <= response.received, "{response:?}");
        response.outcome.expect("the server responds")
    }

    #[track_caller]
    pub(crate) fn attempt(&mut self, mode: AcquireMode) -> Response {
        self.send(&attempt(self.owner_id, mode))
    }

    #[track_caller]
    fn take_over(&mut self, version: Version) -> Response {
        let fenced = false;
        self.attempt(AcquireMode::TakeOver { version, fenced })
    }

    /// Asserts that an attempt is refused, and returns the record that it has read.
    #[track_caller]
    pub(crate) fn not_acquired(&mut self, mode: AcquireMode) -> LockRecord {
        match self.attempt(mode) {
            Response::NotAcquired(record, _) => record,
            other => panic!("acquired: {other:?}"),
        }
    }

    /// Asserts that a renewal is refused, and returns the record that it has read.
    #[track_caller]
    pub(crate) fn lost(&mut self, grant: Grant) -> LockRecord {
        match self.renew(grant) {
            Response::Lost(record) => record,
            other => panic!("not lost: {other:?}"),
        }
    }

    #[track_caller]
    fn is_refused(&mut self, grant: Grant) {
        let late = self.send(&reassertion(grant));
        assert!(matches!(late, Response::Lost(_)), "{late:?}");
    }

    #[track_caller]
    pub(crate) fn granted(&mut self) -> Grant {
        match self.attempt(AcquireMode::First) {
            Response::Granted(token, slot, _) => Grant {
                owner_id: self.owner_id,
                token,
                slot,
            },
            other => panic!("not granted: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn record(&mut self) -> LockRecord {
        let entry = QueueEntry {
            owner_id: self.owner_id,
            queue_lock: QueueLock::Unavailable,
        };
        match self.send(&Request::GetWithQueue(entry)) {
            Response::NotAcquired(record, _) => record,
            other => panic!("no record: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn renew(&mut self, grant: Grant) -> Response {
        let renew = RenewRequest::new(grant, QueueLock::Unavailable);
        self.send(&Request::Renew(renew))
    }

    #[track_caller]
    fn release(&mut self, owner_id: OwnerId, token: Option<Token>) -> Response {
        self.send(&Request::Release(ReleaseRequest {
            has_entry: false,
            ..ReleaseRequest::without_run(owner_id, token, QueueLock::Unavailable)
        }))
    }

    #[track_caller]
    pub(crate) fn release_grant(&mut self, grant: Grant) -> Response {
        self.release(grant.owner_id, Some(grant.token))
    }
}

fn peers(scene: &dyn Scene) -> (Peer, Peer) {
    (Peer::new(scene, 1), Peer::new(scene, 2))
}

fn free_action_is_granted_to_one_contender_and_reported_to_the_other(scene: &dyn Scene) {
    let (mut one, mut other) = peers(scene);
    let grant = one.granted();
    let seen = other.not_acquired(AcquireMode::First);
    assert_eq!(seen.lease.owner_id, Some(one.owner_id));
    assert_eq!(seen.lease.version.token, grant.token);
    assert_eq!(seen.lease.ttl, one.contender.ttl);
    assert!(matches!(seen.lease.expiry, Expiry::In(left) if left <= seen.lease.ttl));
    let again = one.attempt(AcquireMode::IfFree);
    assert_eq!(again, Response::AlreadyHeld(grant.token, 1));
    // Without a token, the owner id decides.
    let not_own = other.release(other.owner_id, None);
    assert_eq!(not_own, Response::NotHolder(None));
    assert_eq!(one.release(one.owner_id, None), Response::Released);
    assert_eq!(other.record().lease.owner_id, None);
    assert!(other.granted().token > grant.token);
}

/// A release does not change the number of renewals. A waiter that has read a renewed lease would take a record with fewer
/// renewals for an older one.
fn lease_is_renewed_and_released_only_by_its_owner(scene: &dyn Scene) {
    for limit in [1, 0] {
        let [mut one, mut two] = [1, 2].map(|number| Peer::with_limit(scene, number, limit));
        let grant = one.granted();
        // A slot has a neighbour, whose token is larger.
        let beside = (limit == 0).then(|| two.granted());
        let another = Grant {
            owner_id: two.owner_id,
            ..grant
        };
        let later = Grant {
            token: beside.map_or(Token(grant.token.0 + 1), |beside| beside.token),
            ..grant
        };
        for wrong in [another, later] {
            one.lost(wrong);
            let released = one.release_grant(wrong);
            assert!(matches!(released, Response::NotHolder(_)), "{released:?}");
        }
        for _ in 0..2 {
            assert_eq!(one.renew(grant), Response::Renewed(None));
        }
        let record = one.record();
        let slots = record.slots.iter().map(|slot| slot.lease.version.renewals);
        match beside {
            None => assert_eq!(record.lease.version.renewals, 2),
            Some(_) => assert_eq!(slots.collect::<Vec<_>>(), [2, 0]),
        }
        assert_eq!(one.release_grant(grant), Response::Released);
        if let Some(beside) = beside {
            assert_eq!(two.renew(beside), Response::Renewed(None));
            assert_eq!(two.release_grant(beside), Response::Released);
        } else {
            let free = one.record().lease.version;
            assert_eq!((free.token, free.renewals), (grant.token, 2));
        }
    }
}

fn renewed_lease_is_not_taken_over_with_a_stale_version(scene: &dyn Scene) {
    let (mut one, mut other) = peers(scene);
    let grant = one.granted();
    let stale = other.record().lease.version;
    assert_eq!(one.renew(grant), Response::Renewed(None));
    assert!(matches!(other.take_over(stale), Response::NotAcquired(..)));
    let fresh = other.record().lease.version;
    let Response::Granted(token, ..) = other.take_over(fresh) else {
        panic!("the unchanged row was not taken over");
    };
    assert!(token > grant.token);
    one.lost(grant);
    assert_eq!(one.release_grant(grant), Response::NotHolder(None));
    assert_eq!(other.record().lease.owner_id, Some(other.owner_id));
}

fn renewal_revives_an_expired_lease_that_was_not_taken_over(scene: &dyn Scene) {
    let (mut one, mut other) = peers(scene);
    let grant = one.granted();
    scene.expire(Duration::from_secs(2));
    let seen = other.not_acquired(AcquireMode::IfFree);
    assert!(matches!(seen.lease.expiry, Expiry::Ago(_)));
    assert_eq!(one.renew(grant), Response::Renewed(None));
    scene.expire(Duration::from_secs(6));
    let expired = other.record().lease.version;
    let response = other.take_over(expired);
    assert!(matches!(response, Response::Granted(token, ..) if token > grant.token));
    one.lost(grant);
}

fn revoked_record_has_no_holder_and_only_its_owner_frees_it(scene: &dyn Scene) {
    let (mut one, mut other) = peers(scene);
    let grant = one.granted();
    scene.revoke();
    let revoked = Grant {
        token: one.record().lease.version.token,
        ..grant
    };
    assert!(revoked.token > grant.token);
    for grant in [grant, revoked] {
        one.lost(grant);
    }
    assert_eq!(one.record().lease.version.renewals, 0);
    one.not_acquired(AcquireMode::IfFree);
    let not_own = other.release(other.owner_id, None);
    assert_eq!(not_own, Response::NotHolder(None));
    assert_eq!(one.record().lease.owner_id, Some(one.owner_id));
    let freed = one.release_grant(grant);
    assert_eq!(freed, Response::NotHolder(Some(Loss::Revoked)));
    assert_eq!(one.record().lease.owner_id, None);
    assert!(other.granted().token > revoked.token);
}

fn lost_grant_is_written_only_to_an_older_row(scene: &dyn Scene) {
    let (mut one, _) = peers(scene);
    let grant = one.granted();
    scene.lose_record();
    one.lost(grant);
    assert_eq!(one.send(&reassertion(grant)), Response::Renewed(None));
    assert_eq!(one.record().lease.version.renewals, 1000);
    assert_eq!(one.release_grant(grant), Response::Released);
    // The token of the row is not smaller.
    one.is_refused(grant);
}

/// Returns the renewal that writes `grant` again.
pub(crate) fn reassertion(grant: Grant) -> Request {
    Request::Renew(RenewRequest {
        reassertion: Some(Reassertion {
            renewals: 1000,
            fenced: false,
        }),
        ..RenewRequest::new(grant, QueueLock::Unavailable)
    })
}

fn lost_grants_of_slots_are_written_again_in_any_order(scene: &dyn Scene) {
    let peer = |number, count| Peer::with_limit(scene, number, count);
    let [mut one, mut two, mut three] = [peer(1, 0), peer(2, 2), peer(3, 2)];
    let grants = [one.granted(), two.granted()];
    scene.lose_record();
    for (peer, grant) in [(&mut two, grants[1]), (&mut one, grants[0])] {
        let lost = peer.lost(grant);
        assert!(lost.own_lease(grant.owner_id).is_none(), "{lost:?}");
        assert_eq!(peer.send(&reassertion(grant)), Response::Renewed(None));
    }
    let slots = one.record().slot_tokens();
    assert_eq!(slots, [(1, grants[0].token), (2, grants[1].token)]);
    three.not_acquired(AcquireMode::First);
    let beside = Grant {
        owner_id: three.owner_id,
        slot: 3,
        ..grants[1]
    };
    // A third slot is above the limit.
    three.is_refused(beside);

    assert_eq!(one.release_grant(grants[0]), Response::Released);
    // The token of the slot is not smaller.
    one.is_refused(grants[0]);
    assert_eq!(two.release_grant(grants[1]), Response::Released);
    assert_eq!(two.record().lease.owner_id, None);
    let next = three.granted();
    assert!(next.token > grants[1].token);
    assert_eq!(three.release_grant(next), Response::Released);
    // The action has been granted again.
    two.is_refused(grants[1]);
}

fn slots_are_granted_up_to_the_smallest_limit(scene: &dyn Scene) {
    let peer = |number, count| Peer::with_limit(scene, number, count);
    let [mut one, mut two, mut three] = [peer(1, 0), peer(2, 2), peer(3, 0)];
    let grants = [one.granted(), two.granted()];
    assert!(grants[0].token < grants[1].token);
    let seen = three.not_acquired(AcquireMode::First);
    assert!(seen.is_shared());
    let shown = |slot: &Slot| (slot.number, slot.limit.count(), slot.lease.owner_id);
    let slots: Vec<_> = seen.slots.iter().map(shown).collect();
    let owners = [Some(one.owner_id), Some(two.owner_id)];
    assert_eq!(slots, [(1, None, owners[0]), (2, Some(2), owners[1])]);
    assert!(matches!(seen.slots[1].lease.expiry, Expiry::In(left) if left <= two.contender.ttl));
    assert_eq!(one.release_grant(grants[0]), Response::Released);
    let third = three.granted();
    assert!(third.token > grants[1].token);
    let numbers: Vec<_> = one.record().slots.iter().map(|slot| slot.number).collect();
    assert_eq!(numbers, [1, 2], "the smallest free slot is used again");
    let mut four = peer(4, 0);
    four.not_acquired(AcquireMode::IfFree);
    assert_eq!(two.release_grant(grants[1]), Response::Released);
    four.granted();
    let again = four.attempt(AcquireMode::IfFree);
    let record = four.record();
    let own = record.own_lease(four.owner_id).expect("a lease in a slot");
    assert_eq!(again, Response::AlreadyHeld(own.version.token, 2));
}

fn exclusive_lease_and_slots_exclude_each_other_until_the_last_slot_is_released(scene: &dyn Scene) {
    let [mut one, mut two] = [Peer::new(scene, 1), Peer::with_limit(scene, 2, 0)];
    let grant = one.granted();
    two.not_acquired(AcquireMode::First);
    assert_eq!(one.release_grant(grant), Response::Released);
    let slot = two.granted();
    assert!(slot.token > grant.token);
    let among = AcquireMode::AmongSlots {
        dead: None,
        fenced: false,
    };
    for mode in [AcquireMode::First, AcquireMode::IfFree, among] {
        assert_eq!(one.not_acquired(mode).slots.len(), 1);
    }
    let mut three = Peer::with_limit(scene, 3, 0);
    let beside = three.granted();
    assert_eq!(three.release_grant(beside), Response::Released);
    assert!(three.record().is_shared());
    assert_eq!(two.release(two.owner_id, None), Response::Released);
    let record = one.record();
    assert_eq!((record.lease.owner_id, record.slots.len()), (None, 0));
    // A contender waits for the longest ttl that it has read if the database may have lost a grant.
    assert!(record.lease.ttl < Duration::from_hours(1), "{record:?}");
    assert!(one.granted().token > beside.token);
    two.not_acquired(among);
}

fn slot_of_a_dead_holder_is_freed_unless_it_was_renewed(scene: &dyn Scene) {
    let peer = |number| Peer::with_limit(scene, number, 0);
    let [mut one, mut two, mut other] = [peer(1), peer(2), Peer::new(scene, 3)];
    let grants = [one.granted(), two.granted()];
    let slots = other.record().slots;
    let take = |slot: &Slot| AcquireMode::AmongSlots {
        dead: Some((slot.number, slot.lease.version)),
        fenced: false,
    };
    // This database has lost writes that the contender has read, so the slot may belong to a live holder.
    let version = Version {
        token: Token(grants[1].token.0 + 1),
        renewals: 0,
    };
    let late = Request::TryAcquire(AcquireRequest {
        owner_id: other.owner_id,
        mode: take(&slots[1]),
        queue_lock: QueueLock::Unavailable,
        last_read: Some(LastRead {
            database: None,
            version,
            highest_token: version.token,
        }),
        in_order: false,
        prune_dead: true,
    });
    assert!(matches!(other.send(&late), Response::NotAcquired(..)));
    assert_eq!(other.record().slots.len(), 2);
    for slot in &slots {
        assert_eq!(one.renew(grants[0]), Response::Renewed(None));
        other.not_acquired(take(slot));
    }
    two.lost(grants[1]);
    let slots = other.record().slots;
    let Response::Granted(token, ..) = other.attempt(take(&slots[0])) else {
        panic!("no slot is held any more");
    };
    assert!(token > grants[1].token);
    one.lost(grants[0]);
    let released = one.release_grant(grants[0]);
    assert!(matches!(released, Response::NotHolder(_)), "{released:?}");
    assert_eq!(other.record().lease.owner_id, Some(other.owner_id));
}
