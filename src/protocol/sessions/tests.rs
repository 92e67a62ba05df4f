//! The tracker of a running command, and the end of the sessions that a command has left.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use super::{LookResult, SessionTracker, TrackingProblem};
use crate::lease::instant::BootInstant;
use crate::lease::{OwnerId, Token};
use crate::protocol::session_end::{EndingSessions, EndingStep};
use crate::store::session::{
    CommandConnections, FoundSessions, ListedSession, ServerInstance, ServerSession, SessionLook,
    SessionNote, SessionPolicy,
};
use crate::store::{
    EarlierSessions, EndSessionsRequest, Failure, FailureKind, NotePlace, NoteRequest, Noted,
    Request, Response, SessionsLeft, TimedResponse,
};
use crate::sys::tcp::{TcpConnection, TcpSocket};

const START: BootInstant = BootInstant::new(Duration::from_secs(1000));

fn tracker(policy: SessionPolicy) -> SessionTracker {
    SessionTracker::new(Token(5), policy, EarlierSessions::None)
}

fn socket(port: u16) -> TcpSocket {
    let local = SocketAddr::from(([10, 0, 0, 3], port));
    let remote = SocketAddr::from(([10, 0, 0, 9], 3306));
    TcpSocket {
        connection: TcpConnection { local, remote },
        inode: port.into(),
        file: (1, 3),
    }
}

fn connections(ports: &[u16]) -> CommandConnections {
    CommandConnections {
        tcp: ports.iter().map(|port| socket(*port)).collect(),
        pids: BTreeSet::new(),
    }
}

fn listed(id: u64, command: &str) -> ListedSession {
    ListedSession {
        session: ServerSession {
            id,
            account: "app".to_owned(),
            client: format!("localhost:{id}"),
        },
        command: command.to_owned(),
        state: String::new(),
        seconds: 1,
        pid: None,
    }
}

fn note(sessions: &[ListedSession]) -> SessionNote {
    SessionNote {
        instance: ServerInstance {
            server: "db:3306/1".to_owned(),
            started: 7,
        },
        token: Token(5),
        policy: SessionPolicy::Kill,
        sessions: sessions.iter().map(|one| one.session.clone()).collect(),
    }
}

fn found(sessions: &[ListedSession], unseen: &[u16]) -> FoundSessions {
    FoundSessions {
        note: Some(note(sessions)).filter(|note| !note.sessions.is_empty()),
        listed: sessions.to_vec(),
        unseen: unseen.to_vec(),
        unproven: Vec::new(),
        untraceable: None,
    }
}

fn ports(look: &SessionLook) -> Vec<u16> {
    look.connections.tcp.iter().map(TcpSocket::port).collect()
}

fn failure() -> Failure {
    Failure::new(FailureKind::Unknown, "no response")
}

#[test]
fn a_command_without_connections_costs_no_look() {
    let mut tracker = tracker(SessionPolicy::Kill);
    assert_eq!(tracker.look(), None);
    tracker.update(CommandConnections::default());
    assert!(!tracker.is_look_due());
    assert_eq!(tracker.look(), None);
    assert_eq!(tracker.left(), None);
    let mut ignoring = self::tracker(SessionPolicy::Ignore);
    ignoring.update(connections(&[1]));
    assert!(!ignoring.is_look_due());
    assert_eq!((ignoring.look(), ignoring.left()), (None, None));
}

#[test]
fn a_session_stays_noted_after_its_connection_has_ended() {
    let mut tracker = tracker(SessionPolicy::Kill);
    tracker.update(connections(&[1]));
    assert!(tracker.is_look_due(), "a new connection");
    let look = tracker.look().expect("a connection");
    assert_eq!((ports(&look), look.note), (vec![1], None));
    tracker.update(connections(&[1]));
    assert!(!tracker.is_look_due());
    let one = [listed(1, "Query")];
    assert_eq!(
        tracker.looked(Some(Ok(found(&one, &[])))),
        LookResult::Noted
    );
    assert!(tracker.is_recorded());
    tracker.update(connections(&[]));
    let look = tracker.look().expect("a noted session");
    assert_eq!((ports(&look), look.note), (vec![], Some(note(&one))));
    // The session has ended, so the next renewal removes the note, and later renewals do not look.
    tracker.looked(Some(Ok(found(&[], &[]))));
    assert!(!tracker.is_recorded());
    assert_eq!(tracker.look(), None);
}

#[test]
fn the_note_of_an_earlier_holder_is_removed_by_the_first_renewal() {
    let mut tracker = SessionTracker::new(Token(5), SessionPolicy::Kill, EarlierSessions::Noted);
    assert!(tracker.look().expect("a note").is_empty());
    assert_eq!(tracker.left(), None);
    tracker.looked(None);
    assert!(tracker.look().is_some(), "the renewal failed");
    tracker.looked(Some(Ok(found(&[], &[]))));
    assert_eq!(tracker.look(), None);
}

#[test]
fn a_connection_is_looked_for_until_a_look_after_its_end() {
    let mut tracker = tracker(SessionPolicy::Kill);
    tracker.update(connections(&[1]));
    tracker.look();
    // The client has not logged in yet.
    let result = tracker.looked(Some(Ok(found(&[], &[1]))));
    assert_eq!(result, LookResult::LookSoon);
    tracker.update(connections(&[]));
    assert_eq!(ports(&tracker.left().expect("an open question")), [1]);
    assert_eq!(ports(&tracker.look().expect("an open question")), [1]);
    tracker.looked(Some(Ok(found(&[], &[1]))));
    assert_eq!((tracker.left(), tracker.look()), (None, None));
}

#[test]
fn a_connection_that_opens_during_a_look_makes_another_look_due() {
    let mut tracker = tracker(SessionPolicy::Kill);
    tracker.update(connections(&[1]));
    tracker.look();
    tracker.update(connections(&[1, 2]));
    tracker.looked(Some(Ok(found(&[listed(1, "Query")], &[]))));
    assert!(tracker.is_look_due());
    assert_eq!(ports(&tracker.look().expect("a connection")), [1, 2]);
    assert!(!tracker.is_look_due());
}

#[test]
fn connections_of_a_failed_look_are_looked_for_again() {
    let mut tracker = tracker(SessionPolicy::Kill);
    tracker.update(connections(&[1]));
    tracker.look();
    tracker.update(connections(&[]));
    assert_eq!(ports(&tracker.left().expect("a look in flight")), [1]);
    tracker.looked(None);
    assert_eq!(ports(&tracker.look().expect("a failed renewal")), [1]);
    let result = tracker.looked(Some(Err(failure())));
    assert_eq!(
        result,
        LookResult::Incomplete(TrackingProblem::Failed(failure()))
    );
    assert_eq!(ports(&tracker.look().expect("a failed look")), [1]);
    let result = tracker.looked(Some(Err(failure())));
    assert_eq!(result, LookResult::Noted, "a problem is reported once");
}

#[test]
fn a_session_that_stays_invisible_is_reported() {
    let mut tracker = tracker(SessionPolicy::Kill);
    tracker.update(connections(&[1, 2]));
    let mut looks = 0;
    let result = loop {
        tracker.look();
        looks += 1;
        match tracker.looked(Some(Ok(found(&[listed(1, "Query")], &[2])))) {
            LookResult::LookSoon => {}
            result => break result,
        }
    };
    let problem = TrackingProblem::Unseen(vec![2]);
    assert_eq!(result, LookResult::Incomplete(problem));
    assert!(looks > 3, "{looks}");
}

fn look(policy: SessionPolicy, sessions: &[ListedSession]) -> SessionLook {
    SessionLook {
        token: Token(5),
        policy,
        connections: connections(&[9]),
        note: Some(note(sessions)),
    }
}

/// Passes a response to `ending`. `killed` and `denied` are the ids of this step.
fn respond(
    ending: &mut EndingSessions,
    now: BootInstant,
    sessions: &[ListedSession],
    killed: &[u64],
    denied: &[u64],
) {
    let left = SessionsLeft {
        found: found(sessions, &[]),
        killed: killed.to_vec(),
        denied: denied.to_vec(),
        elsewhere: None,
    };
    ending.handle_response(now, timed(Ok(Response::Sessions(Box::new(left)))));
}

/// Passes a response of a server that does not have the noted sessions.
fn respond_elsewhere(ending: &mut EndingSessions, now: BootInstant, note: SessionNote) {
    let elsewhere = Some(note.instance.server.clone());
    let left = SessionsLeft {
        found: FoundSessions {
            note: Some(note),
            ..found(&[], &[])
        },
        killed: Vec::new(),
        denied: Vec::new(),
        elsewhere,
    };
    ending.handle_response(now, timed(Ok(Response::Sessions(Box::new(left)))));
}

fn timed(outcome: Result<Response, Failure>) -> TimedResponse {
    TimedResponse {
        sent: START,
        received: START,
        server_time: None,
        could_grant: false,
        could_release: false,
        outcome,
    }
}

/// Returns the request that is due at `now`.
#[track_caller]
fn request(ending: &EndingSessions, now: BootInstant) -> EndSessionsRequest {
    match ending.next(now) {
        EndingStep::Send(Request::EndSessions(request)) => *request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn killed_sessions_are_awaited_and_killed_once() {
    let both = [listed(1, "Query"), listed(2, "Sleep")];
    let mut ending = EndingSessions::new(look(SessionPolicy::Kill, &both), START);
    let first = request(&ending, START);
    assert!(first.kill && first.skip.is_empty());
    assert_eq!(ports(&first.look), [9]);
    respond(&mut ending, START, &both, &[1, 2], &[]);
    let EndingStep::Wait(at) = ending.next(START) else {
        panic!("no pause between two looks");
    };
    let second = request(&ending, at);
    assert_eq!(second.skip, [1, 2]);
    assert_eq!(
        ports(&second.look),
        [0; 0],
        "another program can reuse the port"
    );
    respond(&mut ending, at, &both[1..], &[], &[]);
    assert_eq!(ending.left().len(), 1, "a rollback counts as still there");
    respond(&mut ending, at, &[], &[], &[]);
    assert!(matches!(ending.next(at), EndingStep::Finished(2)));
}

#[test]
fn sessions_that_may_not_be_killed_are_awaited() {
    let one = [listed(1, "Query")];
    let mut ending = EndingSessions::new(look(SessionPolicy::Kill, &one), START);
    respond(&mut ending, START, &one, &[], &[1]);
    assert!(ending.denied().contains(&1));
    let later = START + Duration::from_mins(1);
    assert_eq!(request(&ending, later).skip, [1]);
    respond(&mut ending, later, &[], &[], &[]);
    assert!(matches!(ending.next(later), EndingStep::Finished(0)));
}

#[test]
fn with_wait_only_statements_are_awaited_and_nothing_is_killed() {
    let both = [listed(1, "Query"), listed(2, "Sleep")];
    let mut ending = EndingSessions::new(look(SessionPolicy::Wait, &both), START);
    assert!(!request(&ending, START).kill);
    respond(&mut ending, START, &both, &[], &[]);
    assert_eq!(ending.left(), &both[..1]);
    respond(&mut ending, START, &both[1..], &[], &[]);
    assert!(matches!(ending.next(START), EndingStep::Finished(0)));
}

#[test]
fn a_failed_look_is_tried_again() {
    let one = [listed(1, "Query")];
    let mut ending = EndingSessions::new(look(SessionPolicy::Kill, &one), START);
    ending.handle_response(START, timed(Err(failure())));
    assert_eq!(ending.failure(), Some(&failure()));
    assert!(!ending.has_looked());
    let EndingStep::Wait(at) = ending.next(START) else {
        panic!("no pause after a failure");
    };
    assert_eq!(ports(&request(&ending, at).look), [9]);
}

const NOTES: NoteRequest = NoteRequest {
    owner_id: OwnerId::new([7; 16]),
    of_others: true,
};

#[test]
fn notes_in_other_rows_are_removed_one_after_another() {
    let mut ending = EndingSessions::noted(NOTES, START);
    let mut respond = |response| {
        let EndingStep::Send(request) = ending.next(START) else {
            panic!("no request");
        };
        ending.handle_response(START, timed(Ok(response)));
        (request, ending.renewal_look(), ending.is_needed())
    };
    let noted = |place| {
        let note = note(&[listed(1, "Query")]);
        let text = note.to_text();
        Response::Note(Some(Box::new(Noted { place, note, text })))
    };
    let ended = || {
        Response::Sessions(Box::new(SessionsLeft {
            found: found(&[], &[]),
            killed: vec![1],
            denied: Vec::new(),
            elsewhere: None,
        }))
    };
    for place in [NotePlace::Record, NotePlace::Slot(2)] {
        assert!(matches!(respond(noted(place)).0, Request::GetNote(_)));
        let (request, look, _) = respond(ended());
        assert!(matches!(request, Request::EndSessions(request) if request.skip.is_empty()));
        assert_eq!(look, None, "the note in the own row stays");
        let (request, _, is_needed) = respond(Response::NoteRemoved);
        assert!(matches!(request, Request::RemoveNote(noted) if noted.place == place));
        assert!(is_needed);
    }
    respond(noted(NotePlace::Own));
    let (_, look, _) = respond(ended());
    assert!(look.is_some(), "a renewal replaces the note in the own row");
    assert!(matches!(ending.next(START), EndingStep::Finished(3)));
}

#[test]
fn a_contender_reads_the_noted_sessions() {
    let read = |note: Option<SessionNote>| {
        let mut ending = EndingSessions::noted(NOTES, START);
        let step = ending.next(START);
        assert!(matches!(step, EndingStep::Send(Request::GetNote(NOTES))));
        let place = NotePlace::Own;
        let noted = note.map(|note| {
            let text = note.to_text();
            Box::new(Noted { place, note, text })
        });
        ending.handle_response(START, timed(Ok(Response::Note(noted))));
        ending
    };
    assert!(matches!(read(None).next(START), EndingStep::Finished(0)));
    let noted = SessionNote {
        policy: SessionPolicy::Wait,
        ..note(&[listed(1, "Query")])
    };
    let request = request(&read(Some(noted.clone())), START);
    assert!(!request.kill, "the policy of the holder counts");
    assert_eq!(request.look.note, Some(noted));
}

#[test]
fn sessions_on_another_server_are_ended_over_another_host() {
    let one = [listed(1, "Query")];
    let mut ending = EndingSessions::new(look(SessionPolicy::Kill, &one), START);
    assert!(!request(&ending, START).on_other_host);
    respond_elsewhere(&mut ending, START, note(&one));
    let other = request(&ending, START);
    assert!(other.on_other_host && other.kill);
    assert_eq!(ports(&other.look), [0; 0], "they lead to the first server");
    respond(&mut ending, START, &one, &[1], &[]);
    let EndingStep::Wait(again) = ending.next(START) else {
        panic!("no pause between two looks");
    };
    // By now, the connection of the lease may lead to the server that has the sessions.
    assert!(!request(&ending, again).on_other_host);
    respond_elsewhere(&mut ending, again, note(&one));
    respond(&mut ending, again, &[], &[], &[]);
    assert!(matches!(ending.next(again), EndingStep::Finished(1)));
    assert_eq!(ending.elsewhere(), None);
}

#[test]
fn sessions_on_a_server_without_a_host_are_reported_and_not_awaited() {
    let one = [listed(1, "Query")];
    let mut ending = EndingSessions::new(look(SessionPolicy::Kill, &one), START);
    respond_elsewhere(&mut ending, START, note(&one));
    assert!(!matches!(ending.next(START), EndingStep::Finished(_)));
    respond_elsewhere(&mut ending, START, note(&one));
    assert!(matches!(ending.next(START), EndingStep::Finished(0)));
    assert!(ending.elsewhere().is_some());
}

#[test]
fn after_a_failure_on_the_other_host_the_next_look_begins_with_the_first_server() {
    let one = [listed(1, "Query")];
    let mut ending = EndingSessions::new(look(SessionPolicy::Kill, &one), START);
    respond_elsewhere(&mut ending, START, note(&one));
    ending.handle_response(START, timed(Err(failure())));
    let EndingStep::Wait(again) = ending.next(START) else {
        panic!("no pause after a failure");
    };
    assert!(!request(&ending, again).on_other_host);
}

#[test]
fn single_look_reports_statements_and_kills_nothing() {
    let both = [listed(1, "Query"), listed(2, "Sleep")];
    let mut ending = EndingSessions::single_look(look(SessionPolicy::Kill, &both), START);
    assert!(!request(&ending, START).kill);
    respond(&mut ending, START, &both, &[], &[]);
    assert!(matches!(ending.next(START), EndingStep::Finished(0)));
    assert_eq!(ending.left(), &both[..1]);
}
