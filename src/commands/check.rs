//! `dlock check`: checks that the command still holds the locks under which it was started.

use std::time::Duration;

use anyhow::Context;

use super::outer::selected_leases;
use super::query_once;
use crate::cli::check::CheckArgs;
use crate::exit::{ExitError, Status};
use crate::lease::Token;
use crate::lease::action::Action;
use crate::report::{self, messages};
use crate::store::mysql::fence_check;
use crate::store::target::Targets;
use crate::store::{Contender, Holder, LockRecord, OuterLease};

/// Checks that the token is current. With `--sql`, prints SQL that checks the token instead. In a command that runs under
/// several leases, the default is to check them all.
///
/// # Errors
/// Without `--sql`, fails if a token is not current, or if the server cannot be reached, is
/// read-only or refuses the request. With `--sql`, fails if stdout cannot be written.
pub fn run(args: CheckArgs, targets: Targets) -> anyhow::Result<Status> {
    let is_argument = args.name.is_some();
    let action = args.name.or(args.action).context("no action")?;
    let leases = selected_leases(action, is_argument, Token(args.token));
    if args.sql {
        let checks = leases.iter();
        let checks =
            checks.map(|lease| fence_check(targets.database(), &lease.action, lease.token));
        report::result(&checks.collect::<String>())?;
        return Ok(Status::OK);
    }
    let actions: Vec<Action> = leases.iter().map(|lease| lease.action.clone()).collect();
    let records = query_once(targets, move |database| {
        let of = |action| Contender::without_command(action, Holder::default(), Duration::ZERO);
        let actions = actions.into_iter();
        actions
            .map(|action| database.current_record(&of(action)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    for (OuterLease { action, token }, record) in leases.iter().zip(records) {
        if !is_current(&record, *token) {
            let last_grant = messages::last_granted(action, &record);
            let why = format!("token {token} is not current: {last_grant}");
            return Err(ExitError::new(Status::LOST, why).into());
        }
    }
    Ok(Status::OK)
}

/// Returns true if the run that was granted `token` still holds the lock.
pub(super) fn is_current(record: &LockRecord, token: Token) -> bool {
    record.leases().any(|lease| {
        lease.version.token == token && lease.owner_id.is_some() && lease.min_hold_until.is_none()
    })
}
