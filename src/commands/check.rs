//! `dlock check`: whether the command still has the lock that it was started under.

use std::time::Duration;

use super::ask_once;
use crate::cli::check::CheckArgs;
use crate::exit::{Ending, Status};
use crate::lease::Token;
use crate::report::{self, words};
use crate::store::mysql::fence_check;
use crate::store::target::Target;
use crate::store::{Answer, Contender, Fence, Holder, Question, Sighting};

/// Says by the status whether the token is current, or prints the SQL that does.
///
/// # Errors
/// When it is not, or the server cannot be reached or refuses.
pub fn run(args: CheckArgs, target: Target) -> anyhow::Result<Status> {
    let CheckArgs { action, token, sql } = args;
    let token = Token(token);
    if sql {
        report::result(&fence_check(&target.database, &action, token))?;
        return Ok(Status::OK);
    }
    let contender = Contender {
        action: action.clone(),
        holder: Holder::default(),
        ttl: Duration::ZERO,
        once: None,
        history: 0,
        fence: Fence::AsItIs,
    };
    let answer = ask_once(target, move |database| {
        database.ask(&contender, &Question::Look).outcome
    })?;
    let Answer::Looked(seen) = answer else {
        return Err(Ending::new(Status::INTERNAL, format!("not a look: {answer:?}")).into());
    };
    if is_current(&seen, token) {
        return Ok(Status::OK);
    }
    let now = words::last_granted(&action, &seen);
    let why = format!("token {token} is not current: {now}");
    Err(Ending::new(Status::LOST, why).into())
}

/// Whether the run that was granted `token` still has the row.
pub(super) fn is_current(seen: &Sighting, token: Token) -> bool {
    seen.version.token == token && seen.claim.is_some() && seen.kept_until.is_none()
}
