//! `dlock check`: checks that the command still holds the lock under which it was started.

use std::time::Duration;

use anyhow::Context;

use super::query_once;
use crate::cli::check::CheckArgs;
use crate::exit::{ExitError, Status};
use crate::lease::Token;
use crate::report::{self, messages};
use crate::store::mysql::fence_check;
use crate::store::target::Targets;
use crate::store::{Contender, Holder, LockRecord};

/// Checks that the token is current. With `--sql`, prints SQL that checks the token instead.
///
/// # Errors
/// Without `--sql`, fails if the token is not current, or if the server cannot be reached, is
/// read-only or refuses the request. With `--sql`, fails if stdout cannot be written.
pub fn run(args: CheckArgs, targets: Targets) -> anyhow::Result<Status> {
    let action = args.name.or(args.action).context("no action")?;
    let token = Token(args.token);
    if args.sql {
        report::result(&fence_check(targets.database(), &action, token))?;
        return Ok(Status::OK);
    }
    let contender = Contender::without_command(action.clone(), Holder::default(), Duration::ZERO);
    let record = query_once(targets, move |database| database.current_record(&contender))?;
    if is_current(&record, token) {
        return Ok(Status::OK);
    }
    let last_grant = messages::last_granted(&action, &record);
    let why = format!("token {token} is not current: {last_grant}");
    Err(ExitError::new(Status::LOST, why).into())
}

/// Returns true if the run that was granted `token` still holds the lock.
pub(super) fn is_current(record: &LockRecord, token: Token) -> bool {
    record.lease.version.token == token
        && record.lease.owner_id.is_some()
        && record.lease.min_hold_until.is_none()
}
