//! The contract of the store: what the protocol relies on, asked of the library directly, on every
//! kind of server.

use std::thread;
use std::time::Duration;

use dlock::lease::{Claim, Grant, Token};
use dlock::store::mysql::{Database, Selection};
use dlock::store::target::{Address, Secret, SslMode, Target, Tls};
use dlock::store::{
    Answer, Contender, FailureKind, Fence, Gate, Holder, Loss, Mode, Parting, Place, Question,
    Remainder, Sighting, Version, Wish,
};
use mysql::prelude::Queryable;

use crate::servers::{self, Flavour, shared};

const TTL: Duration = Duration::from_secs(30);

/// One contender for the action `init` with a connection of its own.
struct Peer {
    database: Database,
    contender: Contender,
    claim: Claim,
    gate: Gate,
}

impl Peer {
    fn new(database: &servers::Database, number: u8) -> Self {
        let target = Target {
            address: Address::Tcp {
                host: "127.0.0.1".to_owned(),
                port: database.port,
            },
            user: database.user.clone(),
            password: Some(Secret::new(database.password.clone())),
            database: database.name.clone(),
            tls: Tls {
                mode: SslMode::Disabled,
                chosen: true,
                ca: None,
                identity: None,
            },
        };
        Self {
            database: Database::new(target, Duration::from_secs(10), TTL),
            contender: Contender {
                action: "init".parse().expect("a name"),
                holder: Holder {
                    label: format!("peer {number}"),
                    ..Holder::default()
                },
                ttl: TTL,
                once: None,
                history: 100,
                fence: Fence::AsItIs,
            },
            claim: Claim::new([number; 16]),
            // The truth must stand without the gate; what the gate adds has its own tests.
            gate: Gate::Absent,
        }
    }

    #[track_caller]
    fn ask(&mut self, question: &Question) -> Answer {
        let reply = self.database.ask(&self.contender, question);
        assert!(reply.sent <= reply.received, "{reply:?}");
        let looks = !matches!(question, Question::Release(_));
        assert_eq!(reply.server_time.is_some(), looks, "{reply:?}");
        reply.outcome.expect("the server answers")
    }

    #[track_caller]
    fn attempt(&mut self, mode: Mode) -> Answer {
        let Self { claim, gate, .. } = *self;
        self.ask(&Question::Attempt(Wish { claim, mode, gate }))
    }

    /// Takes the row over if it still stands as `version` says.
    #[track_caller]
    fn take_over(&mut self, version: Version) -> Answer {
        self.attempt(Mode::TakeOver {
            version,
            fenced: false,
        })
    }

    #[track_caller]
    fn granted(&mut self) -> Grant {
        match self.attempt(Mode::First) {
            Answer::Granted(token) => Grant {
                claim: self.claim,
                token,
            },
            other => panic!("not granted: {other:?}"),
        }
    }

    #[track_caller]
    fn look(&mut self) -> Sighting {
        let Self { claim, gate, .. } = *self;
        match self.ask(&Question::Inspect(Place { claim, gate })) {
            Answer::Seen(sighting, _) => sighting,
            other => panic!("not seen: {other:?}"),
        }
    }

    #[track_caller]
    fn release(&mut self, grant: Grant) -> Answer {
        self.give_up(grant.claim, Some(grant.token))
    }

    #[track_caller]
    fn renew(&mut self, grant: Grant) -> Answer {
        self.ask(&Question::Renew(grant, self.gate))
    }

    #[track_caller]
    fn give_up(&mut self, claim: Claim, token: Option<Token>) -> Answer {
        self.ask(&Question::Release(Parting {
            claim,
            token,
            gate: self.gate,
            queued: false,
            keep: None,
            run: None,
            handed_off: false,
        }))
    }
}

/// Runs `claim` with two peers on a fresh database of each kind of server.
fn everywhere(claim: impl Fn(&servers::Database, Peer, Peer)) {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("contract");
        let one = Peer::new(&database, 1);
        let other = Peer::new(&database, 2);
        claim(&database, one, other);
    }
}

#[test]
fn a_free_action_is_granted_to_one_and_seen_by_the_other() {
    everywhere(|_, mut one, mut other| {
        let grant = one.granted();
        let Answer::Seen(seen, _) = other.attempt(Mode::First) else {
            panic!("granted twice");
        };
        assert_eq!(seen.claim, Some(one.claim));
        assert_eq!(seen.version.token, grant.token);
        assert_eq!(seen.holder.label, "peer 1");
        assert_eq!(seen.ttl, TTL);
        assert!(matches!(seen.remainder, Remainder::Left(left) if left <= TTL));
        assert_eq!(one.release(grant), Answer::Released);
        assert_eq!(other.look().claim, None);
        assert!(other.granted().token > grant.token);
    });
}

#[test]
fn an_attempt_that_is_repeated_finds_its_own_grant() {
    everywhere(|_, mut one, _| {
        let grant = one.granted();
        assert_eq!(one.attempt(Mode::IfFree), Answer::AlreadyOurs(grant.token));
    });
}

#[test]
fn a_renewal_that_is_repeated_succeeds_and_counts() {
    everywhere(|_, mut one, _| {
        let grant = one.granted();
        assert_eq!(one.renew(grant), Answer::Renewed);
        assert_eq!(one.renew(grant), Answer::Renewed);
        assert_eq!(one.look().version.renewals, 2);
    });
}

#[test]
fn a_renewal_or_release_needs_both_claim_and_token() {
    everywhere(|_, mut one, other| {
        let grant = one.granted();
        for wrong in [
            Grant {
                claim: other.claim,
                ..grant
            },
            Grant {
                token: Token(grant.token.0 + 1),
                ..grant
            },
        ] {
            assert!(matches!(one.renew(wrong), Answer::Lost(_)));
            assert_eq!(one.release(wrong), Answer::NotOurs(None));
        }
        assert_eq!(one.look().version.renewals, 0);
        assert_eq!(one.renew(grant), Answer::Renewed);
    });
}

#[test]
fn a_claim_without_its_token_can_be_given_back() {
    everywhere(|_, mut one, mut other| {
        one.granted();
        assert_eq!(other.give_up(other.claim, None), Answer::NotOurs(None));
        assert_eq!(one.give_up(one.claim, None), Answer::Released);
        assert_eq!(one.look().claim, None);
    });
}

#[test]
fn a_lease_that_was_renewed_is_not_taken_over_from_an_older_sight() {
    everywhere(|_, mut one, mut other| {
        let grant = one.granted();
        let stale = other.look().version;
        assert_eq!(one.renew(grant), Answer::Renewed);
        assert!(matches!(other.take_over(stale), Answer::Seen(..)));
        let fresh = other.look().version;
        let Answer::Granted(token) = other.take_over(fresh) else {
            panic!("an unchanged row is not taken over");
        };
        assert!(token > grant.token);
        assert!(matches!(one.renew(grant), Answer::Lost(_)));
        assert_eq!(one.release(grant), Answer::NotOurs(None));
        assert_eq!(other.look().claim, Some(other.claim));
    });
}

#[test]
fn an_expired_lease_that_nobody_takes_over_is_brought_back_by_a_renewal() {
    everywhere(|database, mut one, mut other| {
        let grant = one.granted();
        let mut admin = database.admin_conn();
        let mut expire = |seconds: u32| {
            admin
                .query_drop(format!(
                    "UPDATE dlock_lock SET expires_at=UTC_TIMESTAMP(6)-INTERVAL {seconds} SECOND"
                ))
                .expect("the row can be changed");
        };
        expire(2);
        assert!(matches!(
            other.attempt(Mode::IfFree),
            Answer::Seen(
                Sighting {
                    remainder: Remainder::Lapsed(_),
                    ..
                },
                _
            )
        ));
        assert_eq!(one.renew(grant), Answer::Renewed);
        expire(6);
        let expired = other.look().version;
        assert!(matches!(other.take_over(expired), Answer::Granted(token) if token > grant.token));
        assert!(matches!(one.renew(grant), Answer::Lost(_)));
    });
}

#[test]
fn a_record_that_an_operator_has_revoked_is_nobodys_and_is_freed_by_its_owner_alone() {
    everywhere(|database, mut one, mut other| {
        let grant = one.granted();
        let mut admin = database.admin_conn();
        admin
            .query_drop("UPDATE dlock_lock SET token=token+1,broken_at=UTC_TIMESTAMP(6)")
            .expect("the row can be changed");
        let revoked = Grant {
            token: Token(grant.token.0 + 1),
            ..grant
        };
        for grant in [grant, revoked] {
            assert!(matches!(one.renew(grant), Answer::Lost(_)));
        }
        assert_eq!(one.look().version.renewals, 0);
        assert!(matches!(one.attempt(Mode::IfFree), Answer::Seen(..)));
        assert_eq!(other.give_up(other.claim, None), Answer::NotOurs(None));
        assert_eq!(one.look().claim, Some(one.claim));
        assert_eq!(one.release(grant), Answer::NotOurs(Some(Loss::Revoked)));
        assert_eq!(one.look().claim, None);
        assert!(other.granted().token > revoked.token);
    });
}

#[test]
fn the_token_grows_over_whatever_stood_in_the_row() {
    everywhere(|database, mut one, _| {
        let first = one.granted();
        assert_eq!(one.release(first), Answer::Released);
        let mut admin = database.admin_conn();
        let mut put = |token: u64| {
            admin
                .query_drop(format!("UPDATE dlock_lock SET token={token}"))
                .expect("the row can be changed");
        };
        // A restored backup has an old token, a server with a wrong clock left a high one.
        put(3);
        let second = one.granted();
        assert!(second.token > first.token);
        assert_eq!(one.release(second), Answer::Released);
        put(9_000_000_000_000_000_000);
        assert_eq!(one.granted().token, Token(9_000_000_000_000_000_001));
    });
}

#[test]
fn names_are_compared_as_bytes() {
    everywhere(|_, mut one, mut other| {
        one.granted();
        for name in ["Init", "init ", "ínit", "init\u{200d}"] {
            other.contender.action = name.parse().expect("a name");
            other.granted();
        }
        assert_eq!(one.look().claim, Some(one.claim));
        let all = one.database.survey(Selection::All).expect("a survey").locks;
        assert_eq!(all.len(), 5);
    });
}

#[test]
fn a_survey_shows_what_it_is_asked_for() {
    everywhere(|_, mut one, mut other| {
        let grant = one.granted();
        other.contender.action = "zeta".parse().expect("a name");
        other.granted();
        let names = |sightings: Vec<Sighting>| -> Vec<String> {
            sightings
                .iter()
                .map(|seen| seen.action.to_string())
                .collect()
        };
        let survey = |peer: &mut Peer, selection: Selection| {
            names(peer.database.survey(selection).expect("a survey").locks)
        };
        assert_eq!(survey(&mut one, Selection::Wanted), ["init", "zeta"]);
        one.release(grant);
        assert_eq!(survey(&mut one, Selection::Wanted), ["zeta"]);
        assert_eq!(survey(&mut one, Selection::All), ["init", "zeta"]);
        let only = ["init".parse().expect("a name")];
        assert_eq!(survey(&mut one, Selection::Named(&only)), ["init"]);
    });
}

#[test]
fn of_many_contenders_one_wins_each_round_and_nobody_deadlocks() {
    const PEERS: u8 = 8;
    const ROUNDS: usize = 25;
    everywhere(|database, mut one, _| {
        let grant = one.granted();
        assert_eq!(one.release(grant), Answer::Released);
        let tokens: Vec<Token> = thread::scope(|scope| {
            let threads: Vec<_> = (10..10 + PEERS)
                .map(|number| {
                    let mut peer = Peer::new(database, number);
                    scope.spawn(move || {
                        let mut tokens = Vec::new();
                        while tokens.len() < ROUNDS {
                            if let Answer::Granted(token) = peer.attempt(Mode::IfFree) {
                                tokens.push(token);
                                let claim = peer.claim;
                                let released = peer.release(Grant { claim, token });
                                assert_eq!(released, Answer::Released);
                            }
                        }
                        tokens
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().expect("no failure, no deadlock"))
                .collect()
        });
        let mut distinct = tokens.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(
            distinct.len(),
            usize::from(PEERS) * ROUNDS,
            "a token was used twice"
        );
    });
}

#[test]
fn a_row_that_somebody_deleted_is_no_answer() {
    everywhere(|database, mut one, _| {
        let grant = one.granted();
        let mut admin = database.admin_conn();
        admin.query_drop("DELETE FROM dlock_lock").expect("deletes");
        let reply = one
            .database
            .ask(&one.contender, &Question::Renew(grant, Gate::Absent));
        let failure = reply.outcome.expect_err("nothing to renew");
        assert_eq!(failure.kind, FailureKind::Unknown, "{failure}");
    });
}
