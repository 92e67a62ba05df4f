//! `dlock doctor`: asks the server everything that dlock rests on, and judges it.
//!
//! One file a subject. In each, asking is apart from judging, which is pure: what no server at hand
//! can be is judged in tests on made-up answers. Nothing here writes, and nothing is left behind.
//! It goes on as far as the server lets it: what one refusal leaves unknown is no reason to keep
//! silent about the rest.

mod arrival;
mod between;
mod definition;
mod facts;
mod gate;
mod grants;
mod kind;
mod pace;
mod present;
mod safety;
mod session;
mod tables;

use std::time::Duration;

use self::between::Identities;
use self::facts::Facts;
use self::gate::Trial;
use self::pace::Clocks;
use self::present::Present;
use self::session::{Session, Unanswered};
use super::errors::Refusal;
use crate::store::Failure;
use crate::store::finding::{Check, Finding};
use crate::store::target::Target;

/// Where the findings go, as they come.
pub type Tell<'a> = dyn FnMut(Finding) + 'a;

/// Looks at everything, in the order of [`Check::ALL`]; a check may bring several findings, and one
/// that was not come to brings none.
///
/// # Errors
/// When the server cannot be reached, or not any more; what there is to say of it has been told.
pub fn examine(target: &Target, limit: Duration, tell: &mut Tell) -> Result<(), Failure> {
    match Session::open(target, limit) {
        Ok(session) => examine_all(target, session, None, tell),
        Err(Refusal {
            at: at @ Some(Check::Database),
            failure,
        }) => {
            // The server can be looked at all the same.
            let server = Target {
                database: String::new(),
                ..target.clone()
            };
            match Session::open(&server, limit) {
                Ok(session) => examine_all(target, session, Some(&failure), tell)?,
                Err(_) => tell_all(arrival::failed(target, at, &failure.message), tell),
            }
            Err(failure)
        }
        Err(Refusal { at, failure }) => {
            tell_all(arrival::failed(target, at, &failure.message), tell);
            Err(failure)
        }
    }
}

/// The same over a session; without the database, if that is why there is `no_database`.
fn examine_all(
    target: &Target,
    mut session: Session,
    no_database: Option<&Failure>,
    tell: &mut Tell,
) -> Result<(), Failure> {
    let session = &mut session;
    let identities = attend(Check::Proxy, Identities::ask(session), tell)?;
    let facts = match Facts::ask(session) {
        Ok(facts) => facts,
        // Nothing can be judged without; that nothing else is found must not look like health.
        Err(Unanswered::Refused(failure) | Unanswered::Broken(failure)) => {
            return Err(broken(Check::Server, failure, tell));
        }
    };
    tell_all(arrival::arrived(target, &facts), tell);
    tell(match no_database {
        None => arrival::entered(target),
        Some(failure) => arrival::stopped(Some(Check::Database), &failure.message),
    });
    tell(kind::server(&facts));
    tell(kind::cluster(&facts));
    if let Some(identities) = identities {
        tell(identities.judge());
    }
    if let Some(settings) = attend(Check::Session, between::settings(session), tell)? {
        tell(between::judge(&settings, &facts));
    }
    tell(safety::writes(&facts));
    if no_database.is_none() {
        examine_tables(target, &facts, session, tell)?;
    }
    if let Some(trial) = attend(Check::Gate, Trial::run(session), tell)? {
        tell(trial.judge());
    }
    tell_all(safety::durability(&facts), tell);
    tell(safety::replication(&facts));
    if let Some(Some(clocks)) = attend(Check::Clock, Clocks::ask(session), tell)? {
        tell(clocks.judge());
    }
    if let Some(trips) = attend(Check::RoundTrip, pace::trips(session), tell)? {
        tell(pace::judge_trips(trips));
    }
    tell(pace::connections(&facts));
    Ok(())
}

fn examine_tables(
    target: &Target,
    facts: &Facts,
    session: &mut Session,
    tell: &mut Tell,
) -> Result<(), Failure> {
    let wanted = definition::tables();
    let Some(rights) = attend(Check::Grants, grants::ask(session, &wanted), tell)? else {
        return Ok(());
    };
    tell_all(
        grants::judge(&rights, &target.database, &facts.account),
        tell,
    );
    let present = Present::ask(session, &wanted, &rights);
    let Some(present) = attend(Check::Tables, present, tell)? else {
        return Ok(());
    };
    let is_complete = present.engines.len() == wanted.len();
    let may_create = match is_complete || facts.is_galera() {
        true => None,
        false => attend(Check::Tables, grants::may_create(session), tell)?.flatten(),
    };
    tell_all(tables::judge(&wanted, &present, &rights, may_create), tell);
    Ok(())
}

/// What a check has to go on; without it, says why. Only a server that is gone ends everything.
fn attend<T>(
    check: Check,
    outcome: Result<T, Unanswered>,
    tell: &mut Tell,
) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(answer) => Ok(Some(answer)),
        Err(Unanswered::Refused(failure)) => {
            tell(Finding::unchecked(check, failure.message));
            Ok(None)
        }
        Err(Unanswered::Broken(failure)) => Err(broken(check, failure, tell)),
    }
}

/// Tells of a failure after which nothing else can be known.
fn broken(check: Check, failure: Failure, tell: &mut Tell) -> Failure {
    tell(Finding::mend(
        check,
        failure.message.clone(),
        "the server was there a moment ago: a holder would be about to lose its lease",
        "find out what ended the connection, and run dlock doctor again",
    ));
    failure
}

fn tell_all(findings: Vec<Finding>, tell: &mut Tell) {
    findings.into_iter().for_each(tell);
}
