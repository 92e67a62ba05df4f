//! Runs the contract of a store (`tests/it/contract.rs`) on every kind of server, and checks what only a real server can do.
//! The tests call the library directly.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use dlock::lease::limit::Limit;
use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::mysql::Database;
use dlock::store::{
    AcquireMode, Contender, EarlierSessions, FenceMode, Holder, NotePlace, NoteRequest, QueueLock,
    ReleaseRequest, RenewRequest, Request, Response, Store,
};
use dlock::sys::clock;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::{self, Flavour, Series, shared};

use crate::contract::{CLAUSES, Peer, Scene, attempt, reassertion};
use crate::session_settings::worst;

const TTL: Duration = Duration::from_secs(30);

/// Returns a connection to `database`, and the contender with this number for the action `init`.
fn connect(database: &servers::Database, number: u8) -> (Database, Contender) {
    let contender = Contender {
        action: "init".parse().expect("the name is valid"),
        holder: Holder {
            label: format!("peer {number}"),
            ..Holder::default()
        },
        ttl: TTL,
        limit: Limit::ONE,
        once: None,
        history: 100,
        fence: FenceMode::Unchanged,
        inside: None,
    };
    let store = Database::new(database.target(database.port), Duration::from_secs(10), TTL);
    (store, contender)
}

const fn owner_id(number: u8) -> OwnerId {
    OwnerId::new([number; 16])
}

/// Runs `test` with two peers on a new database of each kind of server, also with the worst session variables.
fn everywhere(test: impl Fn(&servers::Database, Peer, Peer)) {
    for flavour in Flavour::ALL {
        for server in [worst(flavour), shared(flavour)] {
            let database = server.database("contract");
            let scene = RealScene(&database);
            let (one, other) = (Peer::new(&scene, 1), Peer::new(&scene, 2));
            test(&database, one, other);
        }
    }
}

struct RealScene<'a>(&'a servers::Database);

impl Scene for RealScene<'_> {
    fn connect(&self, number: u8) -> (Box<dyn Store>, Contender) {
        let (store, contender) = connect(self.0, number);
        (Box::new(store), contender)
    }

    fn owner_id(&self, number: u8) -> OwnerId {
        owner_id(number)
    }

    fn expire(&self, ago: Duration) {
        let ago = ago.as_secs();
        (self.0).run(format!(
            "UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL {ago} SECOND"
        ));
    }

    fn revoke(&self) {
        self.0
            .run("UPDATE dlock_lock SET token=token+1,revoked_at=UTC_TIMESTAMP(6)");
    }

    fn lose_record(&self) {
        self.0.run("DELETE FROM dlock_lock; DELETE FROM dlock_slot");
    }
}

#[test]
fn real_servers_keep_the_contract_of_a_store() {
    let worst = Flavour::ALL.into_iter().map(worst);
    for server in Series::ALL.into_iter().map(shared).chain(worst) {
        let database = server.database("contract");
        let scene = RealScene(&database);
        for clause in CLAUSES {
            clause(&scene);
            for table in ["lock", "slot", "waiter", "history", "success", "fence"] {
                database.run(format!("DELETE FROM dlock_{table}"));
            }
        }
    }
}

/// The sessions of a command whose lease was in a slot are noted there. Each later holder ends them first.
#[test]
fn note_in_a_free_slot_is_read_by_every_later_holder_until_it_is_removed() {
    everywhere(|database, mut exclusive, _| {
        let scene = RealScene(database);
        let sharer = |number| Peer::with_limit(&scene, number, 0);
        let read = |peer: &mut Peer| {
            let request = NoteRequest {
                owner_id: peer.owner_id,
                of_others: true,
            };
            match peer.send(&Request::GetNote(request)) {
                Response::Note(noted) => noted.map(|noted| *noted),
                other => panic!("no note: {other:?}"),
            }
        };
        let place = |peer: &mut Peer| read(peer).map(|noted| noted.place);
        let [mut first, mut second, mut third] = [3, 4, 5].map(sharer);
        let grants = [first.granted(), second.granted()];
        let note =
            r#"{"server":"s","started":1,"token":7,"policy":"kill","sessions":[],"newer":1}"#;
        database.run(format!("UPDATE dlock_slot SET sessions='{note}'"));
        assert_eq!(place(&mut first), Some(NotePlace::Own));
        assert_eq!(second.release_grant(grants[1]), Response::Released);
        let noted = read(&mut first).expect("a note in a slot that nobody holds");
        assert_eq!(noted.place, NotePlace::Slot(2));
        assert_eq!(first.release_grant(grants[0]), Response::Released);
        // The record stays while there is a note.
        assert!(third.record().is_shared());
        let Response::Granted(token, _, EarlierSessions::Noted) = third.attempt(AcquireMode::First)
        else {
            panic!("the notes are not read");
        };
        let grant = Grant::new(third.owner_id, token);
        assert_eq!(read(&mut third), Some(noted.clone()));
        let remove = Request::RemoveNote(Box::new(noted));
        assert_eq!(third.send(&remove), Response::NoteRemoved);
        assert_eq!(place(&mut third), Some(NotePlace::Own));
        assert_eq!(third.release_grant(grant), Response::Released);

        // An exclusive holder ends the sessions that the slots contain too.
        let among = AcquireMode::AmongSlots {
            dead: None,
            fenced: false,
        };
        exclusive.not_acquired(AcquireMode::First);
        // The record says so to later exclusive holders too, if the first one gives up before that.
        for (mode, is_last) in [
            (among, false),
            (AcquireMode::First, false),
            (AcquireMode::First, true),
        ] {
            let attempt = exclusive.attempt(mode);
            let Response::Granted(token, _, EarlierSessions::Noted) = attempt else {
                panic!("{attempt:?}");
            };
            assert_eq!(place(&mut exclusive), Some(NotePlace::Slot(1)));
            if !is_last {
                let grant = Grant::new(exclusive.owner_id, token);
                assert_eq!(exclusive.release_grant(grant), Response::Released);
            }
        }
        let noted = read(&mut exclusive).expect("a note in a slot");
        let remove = Request::RemoveNote(Box::new(noted));
        assert_eq!(exclusive.send(&remove), Response::NoteRemoved);
        assert_eq!(read(&mut exclusive), None);

        // An account may have no privilege on `dlock_slot`, and tables of version 2 have no such table.
        let note = r#"{"server":"s","started":1,"token":7,"policy":"kill","sessions":[]}"#;
        database.run(format!("UPDATE dlock_lock SET sessions='{note}'"));
        database.run("DROP TABLE dlock_slot");
        let request = NoteRequest {
            owner_id: exclusive.owner_id,
            of_others: false,
        };
        let read = exclusive.send(&Request::GetNote(request));
        assert!(matches!(read, Response::Note(Some(noted)) if noted.place == NotePlace::Own));
    });
}

/// After a loss of the whole table, the record is not known, and its fields have their first values.
#[test]
fn responses_contain_the_label_and_the_time_of_the_server_and_whether_the_record_is_known() {
    everywhere(|database, mut one, mut other| {
        let grant = one.granted();
        let request = attempt(other.owner_id, AcquireMode::First);
        let response = other.store.request(&other.contender, &request);
        assert!(response.server_time.is_some(), "{response:?}");
        let Ok(Response::NotAcquired(seen, _)) = response.outcome else {
            panic!("the action was granted twice");
        };
        assert_eq!(seen.lease.holder.label, "peer 1");
        RealScene(database).lose_record();
        assert!(!one.lost(grant).is_known);
    });
}

/// If the tables have been restored from a backup, the row has an old token. If the server's clock has been fast, the
/// row has a high token. The clock may also be behind the tokens of slots, also after a fail-over.
#[test]
fn tokens_increase_from_any_value_in_the_row_and_above_lost_grants_of_slots() {
    const HOUR: u64 = 3_600_000_000;
    everywhere(|database, mut exclusive, _| {
        let first = exclusive.granted();
        assert_eq!(exclusive.release_grant(first), Response::Released);
        let set_token = |token: u64| database.run(format!("UPDATE dlock_lock SET token={token}"));
        set_token(3);
        let second = exclusive.granted();
        assert!(second.token > first.token);
        assert_eq!(exclusive.release_grant(second), Response::Released);
        set_token(9_000_000_000_000_000_000);
        let third = exclusive.granted();
        assert_eq!(third.token, Token(9_000_000_000_000_000_001));
        RealScene(database).lose_record();

        let scene = RealScene(database);
        let [mut one, mut two] = [1, 2].map(|number| Peer::with_limit(&scene, number, 0));
        let grant = one.granted();
        scene.lose_record();
        let grant = Grant {
            token: Token(grant.token.0 + HOUR),
            slot: 3,
            ..grant
        };
        assert_eq!(one.send(&reassertion(grant)), Response::Renewed(None));
        assert_eq!(one.record().slot_tokens(), [(3, grant.token)]);
        let beside = two.granted();
        assert!(beside.token > grant.token, "{beside:?}");
        assert_eq!(beside.slot, 1);
        assert_eq!(two.release_grant(beside), Response::Released);

        scene.lose_record();
        assert_eq!(one.send(&reassertion(grant)), Response::Renewed(None));
        assert_eq!(one.release_grant(grant), Response::Released);
        let exclusive = Peer::new(&scene, 3).granted();
        assert!(exclusive.token > grant.token, "{exclusive:?}");
    });
}

/// The deadline of a command counts from the send time that a response contains. A later packet of the same request, here
/// the removal of a dead waiter's entry, must not change this time.
#[test]
fn send_time_of_a_grant_is_that_of_the_attempt() {
    everywhere(|database, mut first, _| {
        let grant = first.granted();
        assert_eq!(first.release_grant(grant), Response::Released);
        let entry = "INSERT INTO dlock_waiter SET action='init',owner_id=REPEAT('x',16),holder='dead',host='',pid=1,\
             user='',note='',polls=1,server='',session_id=1,account='',\
             enqueued_at=UTC_TIMESTAMP(6)-INTERVAL 1 DAY,last_seen_at=UTC_TIMESTAMP(6)-INTERVAL 1 DAY";
        database.run(entry);
        let proxy = Proxy::to(database.port);
        let mut through = database.clone();
        through.port = proxy.port();
        let (mut store, contender) = connect(&through, 2);
        let held = proxy.next(Kind::TryAcquire, Fault::HoldResponse);
        let attempting = thread::spawn(move || {
            store.request(&contender, &attempt(owner_id(2), AcquireMode::First))
        });
        held.wait();
        let executed = clock::now();
        held.let_go();
        let response = attempting.join().expect("the thread does not panic");
        let is_granted = matches!(response.outcome, Ok(Response::Granted(..)));
        let is_known = is_granted && response.could_grant;
        assert!(is_known, "{response:?}");
        let left: u64 = database.value("SELECT COUNT(*) FROM dlock_waiter");
        assert_eq!(left, 0, "the entry was not removed");
        assert!(response.sent < executed, "{response:?}");
    });
}

/// A renewal may arrive late, from a connection that its sender has given up.
#[test]
fn late_renewal_does_not_change_a_lock_that_is_held_for_min_hold() {
    everywhere(|database, mut one, _| {
        let grant = one.granted();
        let release = ReleaseRequest {
            keep: Some(Duration::from_hours(1)),
            has_entry: false,
            ..ReleaseRequest::without_run(grant.owner_id, Some(grant.token), QueueLock::Unavailable)
        };
        let released = one.send(&Request::Release(release));
        assert!(matches!(released, Response::Released), "{released:?}");
        let expires = || -> String {
            database.value("SELECT CONCAT(expires_at,' ',ttl_us,' ',renewals) FROM dlock_lock")
        };
        let before = expires();
        let renew = Request::Renew(RenewRequest::new(grant, QueueLock::Unavailable));
        let renewed = one.store.request(&one.contender, &renew).outcome;
        assert!(!matches!(renewed, Ok(Response::Renewed(_))), "{renewed:?}");
        assert_eq!(expires(), before);
    });
}

#[test]
fn one_of_many_contenders_wins_each_round_without_deadlocks() {
    const PEERS: u8 = 8;
    const ROUNDS: usize = 12;
    let contend = |database: &servers::Database, mut one: Peer, _: Peer| {
        let grant = one.granted();
        assert_eq!(one.release_grant(grant), Response::Released);
        let tokens_of = |number| {
            let mut peer = Peer::new(&RealScene(database), number);
            let mut tokens = Vec::new();
            while tokens.len() < ROUNDS {
                if let Response::Granted(token, ..) = peer.attempt(AcquireMode::IfFree) {
                    tokens.push(token);
                    let released = peer.release_grant(Grant::new(peer.owner_id, token));
                    assert_eq!(released, Response::Released);
                }
            }
            tokens
        };
        let tokens: BTreeSet<Token> = thread::scope(|scope| {
            let start = |number| scope.spawn(move || tokens_of(number));
            let threads: Vec<_> = (10..10 + PEERS).map(start).collect();
            let join = |it: thread::ScopedJoinHandle<'_, Vec<Token>>| it.join();
            let tokens = threads.into_iter().map(join);
            let in_time = tokens.map(|it| it.expect("no request fails or deadlocks"));
            in_time.flatten().collect()
        });
        let rounds = usize::from(PEERS) * ROUNDS;
        assert_eq!(tokens.len(), rounds, "a token was used twice");
    };
    everywhere(contend);
}
