//! Each packet of the protocol as a formatted text. The line above the packet says what the packet may change.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::time::Duration;

use insta::assert_snapshot;

use super::readable::{abbreviations, readable};
use crate::lease::action::Action;
use crate::lease::limit::Limit;
use crate::lease::once::Once;
use crate::lease::{Grant, OwnerId, Token};
use crate::store::mysql::statements::{self, Selection};
use crate::store::operator::{OperatorAction, OperatorRequest};
use crate::store::session::{
    CommandConnections, FoundSessions, ServerInstance, ServerSession, SessionLook, SessionNote,
    SessionPolicy,
};
use crate::store::{
    AcquireMode, AcquireRequest, Contender, DatabaseId, FenceMode, HistoryOutcome, Holder,
    LastRead, LockRecord, QueueEntry, QueueLock, Reassertion, ReleaseRequest, RenewRequest,
    RoomWait, RunRecord, Version, WaitRequest,
};
use crate::sys::tcp::{TcpConnection, TcpSocket};

const OWNER_ID: OwnerId = OwnerId::new(*b"own id of 16 Byt");
// A multiple of 16, so the release prunes the history.
const GRANT: Grant = Grant::new(OWNER_ID, Token(48));
const ENTRY: QueueEntry = QueueEntry {
    owner_id: OWNER_ID,
    queue_lock: QueueLock::Available,
};

fn action() -> Action {
    "init".parse().expect("a valid name")
}

/// Returns a contender with the default options of `exec`.
fn contender() -> Contender {
    let holder = Holder {
        label: "web-1/7".to_owned(),
        host: "web-1".to_owned(),
        pid: 7,
        user: "app".to_owned(),
        command: "migrate".to_owned(),
        ..Holder::default()
    };
    Contender {
        history: 100,
        ..Contender::without_command(action(), holder, Duration::from_secs(30))
    }
}

fn attempt_request(mode: AcquireMode) -> AcquireRequest {
    AcquireRequest {
        owner_id: OWNER_ID,
        mode,
        queue_lock: QueueLock::Available,
        last_read: None,
        in_order: true,
        prune_dead: mode != AcquireMode::IfFree,
    }
}

const fn last_read() -> LastRead {
    LastRead {
        database: Some(DatabaseId(77)),
        version: Version {
            token: Token(47),
            renewals: 3,
        },
        highest_token: Token(47),
    }
}

const fn wait_request() -> WaitRequest {
    WaitRequest {
        owner_id: OWNER_ID,
        limit: None,
        room: None,
        prune_dead: false,
        lets_pass: false,
        let_pass: 0,
        may_acquire: true,
        last_read: None,
    }
}

/// Returns the release after a run that succeeded.
const fn release_request() -> ReleaseRequest {
    ReleaseRequest {
        has_entry: false,
        run: Some(RunRecord {
            outcome: HistoryOutcome::Exited(0),
            waited: Duration::from_secs(2),
            duration: Duration::from_secs(1),
            sessions_ended: 0,
            processes_killed: 0,
            dlock_status: None,
        }),
        ..ReleaseRequest::without_run(OWNER_ID, Some(GRANT.token), QueueLock::Available)
    }
}

/// Asserts that the snapshot `name` is the packet, after the sentence `changes`, which must name all tables that the packet
/// may change, and no others.
#[track_caller]
fn assert_packet(name: &str, changes: &str, packet: &str) {
    let text = readable(packet);
    for table in [
        "dlock_lock",
        "dlock_waiter",
        "dlock_history",
        "dlock_success",
        "dlock_fence",
        "dlock_slot",
    ] {
        let writes = [
            format!("UPDATE {table} "),
            format!("INSERT INTO {table} "),
            format!("DELETE FROM {table} "),
        ];
        let is_changed = writes.iter().any(|write| packet.contains(write));
        assert_eq!(
            changes.contains(table),
            is_changed,
            "{name}: {table} in\n{text}"
        );
    }
    let text = format!("May change: {changes}.\n\n{text}");
    assert_snapshot!(name, text);
}

#[test]
fn names_in_the_packets() {
    let mut text = String::new();
    for (name, expression) in abbreviations() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}\n  {expression}");
    }
    assert_snapshot!(text);
}

#[test]
fn first_packet_of_a_session() {
    use statements::{MemberCheck, WriteCheck, session};
    let packet = session(
        "app",
        Duration::from_secs(30),
        MemberCheck::Suspect,
        WriteCheck::Require,
    );
    assert_packet("session", "settings of the session only", &packet);
}

#[test]
fn attempts() {
    let row = "the action's row in dlock_lock";
    let lock = "the session may take the queue lock";
    let first = attempt_request(AcquireMode::First);
    let packet = |contender: &Contender, request| statements::attempt(contender, request, None);
    assert_packet(
        "attempt",
        &format!("{row}; {lock}"),
        &packet(&contender(), &first),
    );

    let knows = AcquireRequest {
        last_read: Some(last_read()),
        ..attempt_request(AcquireMode::IfFree)
    };
    let (attempt, changes) = (packet(&contender(), &knows), format!("{row}; {lock}"));
    assert_packet("attempt_after_a_read", &changes, &attempt);

    let polls = AcquireRequest {
        queue_lock: QueueLock::Unavailable,
        in_order: false,
        ..first.clone()
    };
    assert_packet(
        "attempt_without_named_locks",
        row,
        &packet(&contender(), &polls),
    );

    let once = Contender {
        once: Some(Once::Ever("v7".parse().expect("a valid key"))),
        ..contender()
    };
    assert_packet(
        "attempt_once",
        &format!("{row}; {lock}"),
        &packet(&once, &first),
    );

    let fenced = Contender {
        fence: FenceMode::Advance,
        ..contender()
    };
    let changes = format!("{row}, and its row in dlock_fence; {lock}");
    assert_packet("attempt_with_a_fence", &changes, &packet(&fenced, &first));

    let version = last_read().version;
    let take_over = AcquireRequest {
        last_read: Some(last_read()),
        in_order: false,
        ..attempt_request(AcquireMode::TakeOver {
            version,
            fenced: false,
        })
    };
    let changes =
        format!("{row}; the old holder's entry in dlock_waiter; one row is added to dlock_history");
    assert_packet(
        "attempt_to_take_over",
        &changes,
        &packet(&contender(), &take_over),
    );
}

#[test]
fn leases_in_slots() {
    let shared = Contender {
        limit: Limit::new(NonZeroU32::new(3).expect("not 0")),
        ..contender()
    };
    let rows = "the action's rows in dlock_lock and dlock_slot; rows of dlock_slot are created; \
                the queue entry in dlock_waiter is deleted";
    let locks = "the session may take the queue lock and its holder lock, and releases the former";
    let first = attempt_request(AcquireMode::First);
    assert_packet(
        "attempt_with_a_limit",
        &format!("{rows}; {locks}"),
        &statements::attempt(&shared, &first, None),
    );
    let dead = Version {
        token: Token(7),
        renewals: 2,
    };
    let among = AcquireRequest {
        prune_dead: true,
        in_order: false,
        ..attempt_request(AcquireMode::AmongSlots {
            dead: Some((1, dead)),
            fenced: false,
        })
    };
    assert_packet(
        "exclusive_attempt_that_frees_a_slot",
        "the action's rows in dlock_lock and dlock_slot; the lost run is inserted into dlock_history",
        &statements::attempt(&contender(), &among, None),
    );
    let renew = RenewRequest::new(GRANT, QueueLock::Available);
    assert_packet(
        "renewal_of_a_slot",
        "the action's row in dlock_slot; the session may take its holder lock",
        &statements::renew(&shared, &renew, None),
    );
    let again = RenewRequest {
        reassertion: Some(Reassertion {
            renewals: 9,
            fenced: false,
        }),
        grant: Grant { slot: 2, ..GRANT },
        ..renew
    };
    assert_packet(
        "reassertion_of_a_slot",
        "the action's rows in dlock_lock and dlock_slot; rows of dlock_slot are created; the session may take its holder lock",
        &statements::renew(&shared, &again, None),
    );
    assert_packet(
        "release_of_a_slot",
        "the action's rows in dlock_lock and dlock_slot; the run is inserted into dlock_history, \
         old entries are deleted from dlock_history; the session releases the queue lock and its holder lock",
        &statements::release(&shared, &release_request(), None),
    );
    let room = RoomWait {
        holder: None,
        holders: 3,
        without_lock: 1,
        limit: Limit::NONE,
        held_for: Duration::from_millis(3),
        longest: Duration::from_secs(10),
        fenced: false,
    };
    let packet = statements::wait_room(&shared, &room, None);
    assert_packet("wait_for_room", "nothing", &packet);
    let one = RoomWait {
        holder: Some(GRANT.owner_id),
        ..room
    };
    let packet = statements::wait_room(&shared, &one, None);
    let changes = "the session takes the holder lock of another one, and releases it";
    assert_packet("wait_for_one_holder", changes, &packet);
    assert_packet(
        "read_of_the_slots",
        "nothing",
        &statements::select_slots(Selection::Named(&[action()]), QueueLock::Available, None),
    );
}

#[test]
fn waits() {
    let own = "the contender's own entry in dlock_waiter";
    let lock = "the session takes the queue lock";
    let dead = [(12, 3_001)];
    let packet = statements::wait_turn(&contender(), &wait_request(), &dead);
    let changes = format!("{own}, and the entries of dead waiters; {lock}");
    assert_packet("wait", &changes, &packet);

    let lets_pass = WaitRequest {
        lets_pass: true,
        let_pass: 12,
        ..wait_request()
    };
    let packet = statements::wait_turn(&contender(), &lets_pass, &[]);
    let changes =
        format!("{own}; {lock}, releases it if another waiter passes, and takes it again");
    assert_packet("wait_and_let_another_pass", &changes, &packet);

    let request = attempt_request(AcquireMode::IfFree);
    let packet = statements::attempt(&contender(), &request, Some(&wait_request()));
    assert_packet(
        "attempt_after_the_wait",
        "the action's row in dlock_lock",
        &packet,
    );

    let read = statements::select_record(&contender(), Some(ENTRY));
    assert_packet("read_with_queue", "nothing", &read);
    let enqueue = statements::enqueue(&contender(), ENTRY) + &read;
    assert_packet("enqueue", own, &enqueue);
    assert_packet(
        "dead_entries",
        "nothing",
        &statements::dead_entries(&action()),
    );
}

#[test]
fn renewals() {
    let row = "the action's row in dlock_lock";
    let lock = "the session may take the queue lock";
    let read = statements::select_record(&contender(), None);
    let renew = |contender: &Contender, request: &RenewRequest, look: Option<&_>| {
        statements::renew(contender, request, look) + &read
    };
    let plain = RenewRequest::new(GRANT, QueueLock::Available);
    assert_packet(
        "renewal",
        &format!("{row}; {lock}"),
        &renew(&contender(), &plain, None),
    );

    let instance = ServerInstance {
        server: "db:3306/1".to_owned(),
        started: 1_700_000_000,
    };
    let found = FoundSessions {
        note: Some(SessionNote {
            instance,
            token: GRANT.token,
            policy: SessionPolicy::Kill,
            sessions: Vec::<ServerSession>::new(),
        }),
        ..FoundSessions::default()
    };
    let packet = renew(&contender(), &plain, Some(&Ok(found)));
    assert_packet(
        "renewal_that_notes_sessions",
        &format!("{row}; {lock}"),
        &packet,
    );

    let lost = RenewRequest {
        reassertion: Some(Reassertion {
            renewals: 9,
            fenced: true,
        }),
        ..plain
    };
    let changes = format!("{row}, and its row in dlock_fence; {lock}");
    assert_packet("reassertion", &changes, &renew(&contender(), &lost, None));
}

#[test]
fn sessions_of_a_command() {
    let address = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = TcpSocket {
        connection: TcpConnection {
            local: address(50_001),
            remote: address(3_306),
        },
        inode: 1,
        file: (700, 3),
    };
    let look = SessionLook {
        token: GRANT.token,
        policy: SessionPolicy::Kill,
        connections: CommandConnections {
            tcp: [socket].into(),
            pids: [700].into(),
        },
        note: None,
    };
    assert_packet("process_list", "nothing", &statements::process_list(&look));
    assert_packet(
        "kill_session",
        "the session 17 ends",
        &statements::kill_session(17),
    );
}

#[test]
fn releases() {
    let row = "the action's row in dlock_lock";
    let pass = "the queue lock is released";
    let contender = contender();
    let packet = statements::hand_off(&contender, OWNER_ID);
    assert_packet(
        "hand_off",
        "no row; the session takes the lock of the hand-off and releases the queue lock",
        &packet,
    );

    let release = |contender: &Contender, request: &ReleaseRequest| {
        statements::release(contender, request, None)
    };
    let history = "one row is added to dlock_history";
    let prune = "one in 16 releases removes old rows of dlock_history";
    let packet = release(&contender, &release_request());
    assert_packet(
        "release",
        &format!("{row}; {history}; {pass}; {prune}"),
        &packet,
    );

    let without = Contender {
        history: 0,
        ..contender.clone()
    };
    let packet = release(&without, &release_request());
    assert_packet(
        "release_without_history",
        &format!("{row}; {pass}"),
        &packet,
    );

    let once = Contender {
        once: Some(Once::Ever("v7".parse().expect("a valid key"))),
        ..contender.clone()
    };
    let success = "one row of dlock_success";
    let packet = release(&once, &release_request());
    assert_packet(
        "release_once",
        &format!("{row}; {success}; {history}; {pass}; {prune}"),
        &packet,
    );

    let handed_off = ReleaseRequest {
        handed_off: true,
        ..release_request()
    };
    let packet = statements::release(&contender, &handed_off, Some("db:3306/1"));
    assert_packet(
        "release_after_a_hand_off",
        &format!("{row}; {history}; {pass}; {prune}"),
        &packet,
    );

    let keep = ReleaseRequest {
        keep: Some(Duration::from_mins(5)),
        ..release_request()
    };
    let packet = release(&contender, &keep);
    assert_packet(
        "release_with_min_hold",
        &format!("{row}; {history}; {pass}; {prune}"),
        &packet,
    );

    let abandoned = ReleaseRequest::without_run(OWNER_ID, None, QueueLock::Available);
    let changes = format!("{row}; the contender's own entry in dlock_waiter; {pass}");
    assert_packet(
        "release_without_a_run",
        &changes,
        &release(&contender, &abandoned),
    );

    let packet = statements::reconcile(&contender, &release_request(), Some(Token(49)));
    assert_packet(
        "free_a_revoked_lease",
        &format!("{row}; {history}"),
        &packet,
    );
}

#[test]
fn leaders() {
    let leader = statements::leader(&contender(), Some((OWNER_ID, Duration::from_secs(10))));
    assert_packet("leader", "nothing", &leader);
    let record = LockRecord::never_held(action());
    let note = statements::change_note(&record, GRANT.token, "copies table 3");
    assert_packet("note", "the note in the action's row in dlock_lock", &note);
}

#[test]
fn operator_requests() {
    let changes = "the action's row in dlock_lock, and its row in dlock_fence; rows are added to dlock_history";
    for (name, kind, changes) in [
        ("operator_release", OperatorAction::Release, changes),
        (
            "operator_pause",
            OperatorAction::Pause(Duration::from_mins(10)),
            changes,
        ),
        (
            "operator_resume",
            OperatorAction::Resume,
            "the action's row in dlock_lock; one row is added to dlock_history",
        ),
    ] {
        let request = OperatorRequest {
            action: action(),
            token: GRANT.token,
            slots: Vec::new(),
            by: Holder {
                label: "ops".to_owned(),
                note: "stuck".to_owned(),
                ..Holder::default()
            },
            kind,
        };
        let packet = statements::apply_operator_request(&request, kind == OperatorAction::Release);
        assert_packet(name, changes, &packet);
    }
    let packet = statements::create_row(&action());
    assert_packet(
        "new_row",
        "one row is added to dlock_lock, if the action has none",
        &packet,
    );
}
