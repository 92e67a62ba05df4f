//! Runs the contract of a store (`tests/it/contract.rs`) on every kind of server, and checks what only a real server can do.
//! The tests call the library directly.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use dlock::lease::limit::Limit;
use dlock::lease::{Grant, OwnerId, Token};
use dlock::store::mysql::{Database, Selection};
use dlock::store::{
    AcquireMode, Contender, EarlierSessions, FenceMode, Holder, NotePlace, NoteRequest, QueueLock,
    ReleaseRequest, RenewRequest, Request, Response, Store,
};
use dlock::sys::clock;
use testkit::proxy::{Fault, Kind, Proxy};
use testkit::servers::{self, Flavour, Series, Server, shared};
use testkit::sql::Sql;

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

/// Runs `test` with two peers on a new database of each kind of server, with the worst session variables.
fn everywhere(test: impl Fn(&servers::Database, Peer, Peer)) {
    for flavour in Flavour::ALL {
        on(worst(flavour), &test);
    }
}

fn on(server: &Server, test: impl Fn(&servers::Database, Peer, Peer)) {
    let database = server.database("contract");
    let scene = RealScene(&database);
    let (one, other) = (Peer::new(&scene, 1), Peer::new(&scene, 2));
    test(&database, one, other);
}

/// A scene on a real server.
struct RealScene<'a>(&'a servers::Database);

impl RealScene<'_> {
    fn change(&self, statement: &str) {
        self.0.run(statement);
    }
}

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
        self.change(&format!(
            "UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL {ago} SECOND"
        ));
    }

    fn revoke(&self) {
        self.change("UPDATE dlock_lock SET token=token+1,revoked_at=UTC_TIMESTAMP(6)");
    }

    fn lose_record(&self) {
        self.change("DELETE FROM dlock_lock");
        self.change("DELETE FROM dlock_slot");
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
                scene.change(&format!("DELETE FROM dlock_{table}"));
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
        let [mut first, mut second, mut third] = [3, 4, 5].map(sharer);
        let grants = [first.granted(), second.granted()];
        let note =
            r#"{"server":"s","started":1,"token":7,"policy":"kill","sessions":[],"newer":1}"#;
        scene.change(&format!("UPDATE dlock_slot SET sessions='{note}'"));
        assert_eq!(
            read(&mut first).map(|noted| noted.place),
            Some(NotePlace::Own)
        );
        assert_eq!(second.release_grant(grants[1]), Response::Released);
        let noted = read(&mut first).expect("a note in a slot that nobody holds");
        assert_eq!(noted.place, NotePlace::Slot(2));
        assert_eq!(first.release_grant(grants[0]), Response::Released);
        assert!(
            third.record().is_shared(),
            "the record stays while there is a note"
        );
        let Response::Granted(token, _, EarlierSessions::Noted) = third.attempt(AcquireMode::First)
        else {
            panic!("the notes are not read");
        };
        let grant = Grant::new(third.owner_id, token);
        assert_eq!(read(&mut third), Some(noted.clone()));
        let remove = Request::RemoveNote(Box::new(noted));
        assert_eq!(third.send(&remove), Response::NoteRemoved);
        assert_eq!(
            read(&mut third).map(|noted| noted.place),
            Some(NotePlace::Own)
        );
        assert_eq!(third.release_grant(grant), Response::Released);

        // An exclusive holder ends the sessions that the slots contain too.
        let among = AcquireMode::AmongSlots {
            dead: None,
            fenced: false,
        };
        let attempt = exclusive.attempt(AcquireMode::First);
        assert!(matches!(attempt, Response::NotAcquired(..)), "{attempt:?}");
        // The record says so to later exclusive holders too, if the first one gives up before that.
        for mode in [among, AcquireMode::First] {
            let attempt = exclusive.attempt(mode);
            let Response::Granted(token, _, EarlierSessions::Noted) = attempt else {
                panic!("{attempt:?}");
            };
            let noted = read(&mut exclusive).expect("a note in a slot");
            assert_eq!(noted.place, NotePlace::Slot(1));
            let grant = Grant::new(exclusive.owner_id, token);
            assert_eq!(exclusive.release_grant(grant), Response::Released);
        }
        let attempt = exclusive.attempt(AcquireMode::First);
        assert!(
            matches!(attempt, Response::Granted(_, _, EarlierSessions::Noted)),
            "{attempt:?}"
        );
        let noted = read(&mut exclusive).expect("a note in a slot");
        assert_eq!(noted.place, NotePlace::Slot(1));
        let remove = Request::RemoveNote(Box::new(noted));
        assert_eq!(exclusive.send(&remove), Response::NoteRemoved);
        assert_eq!(read(&mut exclusive), None);

        // An account may have no privilege on `dlock_slot`, and tables of version 2 have no such table.
        let note = r#"{"server":"s","started":1,"token":7,"policy":"kill","sessions":[]}"#;
        scene.change(&format!("UPDATE dlock_lock SET sessions='{note}'"));
        scene.change("DROP TABLE dlock_slot");
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
        match one.renew(grant) {
            Response::Lost(record) => assert!(!record.is_known, "{record:?}"),
            other => panic!("not lost: {other:?}"),
        }
    });
}

/// The server's clock may be behind the tokens, also after a fail-over.
#[test]
fn tokens_are_above_those_of_lost_grants_of_slots() {
    const HOUR: u64 = 3_600_000_000;
    everywhere(|database, _, _| {
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
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("contract");
        let mut first = Peer::new(&RealScene(&database), 1);
        let grant = first.granted();
        assert_eq!(first.release_grant(grant), Response::Released);
        let mut admin = database.admin_conn();
        let entry = "INSERT INTO dlock_waiter SET action='init',owner_id=REPEAT('x',16),holder='dead',host='',pid=1,\
             user='',note='',polls=1,server='',session_id=1,account='',\
             enqueued_at=UTC_TIMESTAMP(6)-INTERVAL 1 DAY,last_seen_at=UTC_TIMESTAMP(6)-INTERVAL 1 DAY";
        admin.run(entry);
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
        assert!(
            matches!(response.outcome, Ok(Response::Granted(..))),
            "{flavour}: {response:?}"
        );
        let left: u64 = admin.value("SELECT COUNT(*) FROM dlock_waiter");
        assert_eq!(left, 0, "{flavour}: the entry was not removed");
        assert!(response.sent < executed, "{flavour}: {response:?}");
        assert!(response.could_grant, "{flavour}: {response:?}");
    }
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
        let expires = || -> Option<String> {
            database.first("SELECT CONCAT(expires_at,' ',ttl_us,' ',renewals) FROM dlock_lock")
        };
        let before = expires();
        let renew = Request::Renew(RenewRequest::new(grant, QueueLock::Unavailable));
        let renewed = one.store.request(&one.contender, &renew).outcome;
        assert!(!matches!(renewed, Ok(Response::Renewed(_))), "{renewed:?}");
        assert_eq!(expires(), before);
    });
}

#[test]
fn token_increases_from_any_value_in_the_row() {
    everywhere(|database, mut one, _| {
        let first = one.granted();
        assert_eq!(one.release_grant(first), Response::Released);
        let set_token = |token: u64| {
            RealScene(database).change(&format!("UPDATE dlock_lock SET token={token}"));
        };
        // If the tables have been restored from a backup, the row has an old token. If the server's clock has been
        // fast, the row has a high token.
        set_token(3);
        let second = one.granted();
        assert!(second.token > first.token);
        assert_eq!(one.release_grant(second), Response::Released);
        set_token(9_000_000_000_000_000_000);
        assert_eq!(one.granted().token, Token(9_000_000_000_000_000_001));
    });
}

/// Returns the names of the selected actions in the database.
fn names(database: &servers::Database, selection: Selection) -> Vec<String> {
    let (mut store, _) = connect(database, 3);
    let snapshot = store.snapshot(selection).expect("the snapshot can be read");
    let locks = snapshot.locks.iter();
    locks.map(|seen| seen.action.to_string()).collect()
}

#[test]
fn action_names_are_compared_as_bytes() {
    everywhere(|database, mut one, mut other| {
        let grant = one.granted();
        for name in ["Init", "init ", "ínit", "init\u{200d}"] {
            other.contender.action = name.parse().expect("the name is valid");
            other.granted();
        }
        assert_eq!(one.record().lease.owner_id, Some(one.owner_id));
        assert_eq!(names(database, Selection::Active).len(), 5);
        one.release_grant(grant);
        assert_eq!(names(database, Selection::Active).len(), 4);
        assert_eq!(names(database, Selection::All).len(), 5);
        let only = ["init".parse().expect("the name is valid")];
        assert_eq!(names(database, Selection::Named(&only)), ["init"]);
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
            let peers = 10..10 + PEERS;
            let threads: Vec<_> = peers
                .map(|number| scope.spawn(move || tokens_of(number)))
                .collect();
            let tokens = threads.into_iter().map(thread::ScopedJoinHandle::join);
            tokens
                .flat_map(|tokens| tokens.expect("no request fails or deadlocks"))
                .collect()
        });
        let rounds = usize::from(PEERS) * ROUNDS;
        assert_eq!(tokens.len(), rounds, "a token was used twice");
    };
    everywhere(contend);
    for flavour in Flavour::ALL {
        on(shared(flavour), contend);
    }
}
