//! `dlock doctor` queries the server for the facts that dlock depends on, and judges the responses.
//!
//! Each subject has its own file. In most files, one part sends requests and another part judges the responses. The
//! second part is pure, so that unit tests can pass it responses from servers that are not available. The checks write
//! nothing. If the server refuses the request of one check, the other checks normally still run.

mod cluster;
mod connect;
mod durability;
mod expected_schema;
mod grants;
mod hosts;
mod latency;
mod named_locks;
mod proxy;
mod server;
mod session;
mod session_user;
mod tables;
mod variables;

use std::time::Duration;

use self::latency::Clocks;
use self::named_locks::Trial;
use self::proxy::Identities;
use self::session::{QueryError, Session};
use self::session_user::SessionAccess;
use self::variables::ServerFacts;
use super::errors::ConnectError;
use super::schema;
use crate::store::check::{Check, Finding};
use crate::store::target::{Target, Targets};
use crate::store::{Failure, FailureKind};

/// Callback that receives each finding as soon as it is available.
pub type FindingSink<'a> = dyn FnMut(Finding) + 'a;

/// Runs all checks in the order of [`Check::ALL`] on the server that `exec` uses, and passes each finding to `emit`. A check may have
/// several findings. A check that is not reached has no finding. `session_user` is the name of the account that the
/// command uses. None skips [`Check::SessionUser`].
///
/// # Errors
/// Returns an error if the server or the database cannot be used, or if the connection is lost. The findings before the
/// error, and a finding for the error, are passed to `emit`.
pub fn examine(
    targets: &Targets,
    session_user: Option<&str>,
    limit: Duration,
    emit: &mut FindingSink,
) -> Result<(), Failure> {
    let (findings, target) = hosts::examine(targets, limit);
    emit_all(findings, emit);
    match Session::open(target, limit) {
        Ok(session) => examine_all(target, session_user, session, None, emit),
        Err(ConnectError {
            at: at @ Some(Check::Database),
            failure,
        }) => {
            // The other checks can run without the database.
            let server = Target {
                database: String::new(),
                ..target.clone()
            };
            match Session::open(&server, limit) {
                Ok(session) => examine_all(target, session_user, session, Some(&failure), emit)?,
                Err(_) => emit_all(connect::failed(target, at, &failure.message), emit),
            }
            Err(failure)
        }
        Err(ConnectError { at, failure }) => {
            emit_all(connect::failed(target, at, &failure.message), emit);
            Err(failure)
        }
    }
}

/// Runs all checks on `session`. `no_database` is the reason why the database cannot be used, and the
/// checks that need the database are then skipped. None if the database can be used.
fn examine_all(
    target: &Target,
    session_user: Option<&str>,
    mut session: Session,
    no_database: Option<&Failure>,
    emit: &mut FindingSink,
) -> Result<(), Failure> {
    let session = &mut session;
    match session.query("DO 0;") {
        Err(QueryError::Refused(failure)) if failure.kind == FailureKind::SharedSessions => {
            emit_all(connect::reached(target), emit);
            emit(proxy::shares_sessions(&failure.message));
            return Err(failure);
        }
        // The next request shows other problems.
        _ => {}
    }
    let identities = or_skip(Check::Proxy, Identities::query(session), emit)?;
    let facts = match ServerFacts::query(session) {
        Ok(facts) => facts,
        // No check can run without these facts, because the checks would judge empty facts as
        // healthy.
        Err(QueryError::Refused(failure) | QueryError::Disconnected(failure)) => {
            return Err(connection_lost(Check::Server, failure, emit));
        }
    };
    emit_all(connect::connected(target, &facts), emit);
    emit(match no_database {
        None => connect::database_found(target),
        Some(failure) => connect::check_failed(Some(Check::Database), &failure.message),
    });
    emit(server::server(&facts));
    match cluster::query_group(session, &facts) {
        Ok(group) => emit(cluster::cluster(&facts, group.as_ref())),
        Err(QueryError::Refused(_)) => emit(cluster::group_is_hidden(&facts)),
        Err(QueryError::Disconnected(failure)) => {
            return Err(connection_lost(Check::Cluster, failure, emit));
        }
    }
    if let Some(identities) = identities {
        emit(identities.judge());
    }
    if let Some(settings) = or_skip(Check::Session, proxy::settings(session), emit)? {
        emit(proxy::judge(&settings, &facts));
    }
    emit(durability::writes(&facts));
    if no_database.is_none() {
        examine_tables(target, &facts, session, emit)?;
    }
    match session_user {
        None => emit(Finding::skip(Check::SessionUser, "no --session-user")),
        Some(user) => {
            let access = SessionAccess::query(session, &facts);
            if let Some(access) = or_skip(Check::SessionUser, access, emit)? {
                emit(access.judge(user, &facts));
            }
        }
    }
    if let Some(trial) = or_skip(Check::NamedLocks, Trial::run(session), emit)? {
        emit(trial.judge());
    }
    emit_all(durability::durability(&facts), emit);
    emit(durability::replication(&facts));
    if let Some(Some(clocks)) = or_skip(Check::Clock, Clocks::query(session), emit)? {
        emit(clocks.judge());
    }
    if let Some(round_trips) = or_skip(Check::RoundTrip, latency::round_trips(session), emit)? {
        emit(latency::judge_round_trips(round_trips));
    }
    emit(latency::connections(&facts));
    Ok(())
}

fn examine_tables(
    target: &Target,
    facts: &ServerFacts,
    session: &mut Session,
    emit: &mut FindingSink,
) -> Result<(), Failure> {
    let Some(versions) = or_skip(Check::Tables, tables::query_versions(session), emit)? else {
        return Ok(());
    };
    let wanted = expected_schema::tables_of(match versions.as_deref() {
        Some([one]) => one.version,
        _ => schema::current().version,
    });
    let Some(rights) = or_skip(Check::Grants, grants::query(session, &wanted), emit)? else {
        return Ok(());
    };
    emit(grants::judge(&rights, &target.database, &facts.account));
    let Some(present) = or_skip(Check::Tables, tables::query(session, &wanted), emit)? else {
        return Ok(());
    };
    let may_create = present.len() < wanted.len()
        && !facts.is_galera()
        && or_skip(Check::Tables, grants::may_create(session), emit)?.unwrap_or(false);
    let versions = versions.as_deref();
    emit_all(
        tables::judge(&wanted, &present, versions, &rights, may_create),
        emit,
    );
    Ok(())
}

/// Returns the response that a check needs. If the server refused the request, emits the finding of a skipped check and
/// returns None. Returns an error only if the connection is lost, which ends all checks.
fn or_skip<T>(
    check: Check,
    outcome: Result<T, QueryError>,
    emit: &mut FindingSink,
) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(response) => Ok(Some(response)),
        Err(QueryError::Refused(failure)) => {
            emit(Finding::skip(check, failure.message));
            Ok(None)
        }
        Err(QueryError::Disconnected(failure)) => Err(connection_lost(check, failure, emit)),
    }
}

/// Emits a finding for a failure that ends all checks, and returns the failure.
fn connection_lost(check: Check, failure: Failure, emit: &mut FindingSink) -> Failure {
    emit(Finding::fail(
        check,
        failure.message.clone(),
        "the server responded a moment ago; a holder that loses its connection like this may lose its lease",
        "find out why the connection was lost, then run dlock doctor again",
    ));
    failure
}

fn emit_all(findings: Vec<Finding>, emit: &mut FindingSink) {
    findings.into_iter().for_each(emit);
}
