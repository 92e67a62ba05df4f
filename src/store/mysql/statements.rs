//! The SQL of the protocol: what each packet says, and why that is safe.
//!
//! Text protocol, several statements a packet, so that an attempt costs one round trip. Every text
//! goes in as a hex literal and every number as a number: nothing is quoted, nothing is escaped,
//! and the character set of the session does not matter. Each packet ends with a SELECT that reads
//! back the request's own random number and the row; what that row says is the only truth.

use std::time::Duration;

use super::schema::VERSION;
use crate::lease::action::Action;
use crate::lease::{Claim, Grant, Token};
use crate::store::{ALLOWANCE, Holder, Version};

/// `bytes` as a hex literal.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2 + 3);
    text.push_str("x'");
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\'');
    text
}

fn hex_action(action: &Action) -> String {
    hex(action.as_str().as_bytes())
}

/// The settings of a new session, sent in front of its first packet.
///
/// - `autocommit`: an `init_connect` may have turned it off, and an attempt would stay uncommitted.
/// - READ COMMITTED: no gap locks, and the subquery on `dlock_schema` takes no lock.
/// - The lock waits bound how long a statement lives on in the server after we gave it up.
/// - `wait_timeout`: the server ends the session of a frozen client by itself.
/// - `sql_mode`: MariaDB's `SIMULTANEOUS_ASSIGNMENT` and the like must not change what is meant;
///   strict, so that a value that does not fit is an error and never cut.
pub(super) fn session(ttl: Duration) -> String {
    let idle = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
    format!(
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;\
         SET SESSION autocommit=1,sql_mode='STRICT_ALL_TABLES',\
         innodb_lock_wait_timeout=1,lock_wait_timeout=1,wait_timeout={idle};"
    )
}

/// Makes sure that the row of `action` exists. Changes nothing that is there. Separate from the
/// attempt, which is then a plain UPDATE of one row and cannot deadlock with its like.
pub(super) fn create_row(action: &Action) -> String {
    format!(
        "INSERT INTO dlock_lock (action) VALUES ({}) ON DUPLICATE KEY UPDATE action=action;",
        hex_action(action)
    )
}

/// Takes the lease if the take-over rule allows it.
///
/// Changes at most the row of `action`, and that in one UPDATE, so of any number of contenders one
/// wins. "No row changed" means nothing by itself: the row may be another's, or ours already when
/// this packet is a repetition. It matches when
/// - the row is free, or
/// - the lease lapsed more than [`ALLOWANCE`] ago by the server's clock, or
/// - the row still stands as the contender has watched it for a full ttl on its own clock
///   (`seen`); no clock of the server is trusted there.
///
/// The token takes the server's clock as its floor so that it keeps growing over a restored backup
/// and over a fail-over that lost the last grants.
pub(super) fn attempt(
    action: &Action,
    holder: &Holder,
    ttl: Duration,
    claim: Claim,
    seen: Option<Version>,
) -> String {
    let ttl_us = ttl.as_micros();
    let watched = seen.map_or_else(String::new, |version| {
        format!(
            " OR (token={} AND renewals={})",
            version.token, version.renewals
        )
    });
    format!(
        "UPDATE dlock_lock SET \
         token=GREATEST(token+1,TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))),\
         claim={claim},holder={label},host={host},pid={pid},user={user},note={note},\
         server=CONCAT(@@hostname,':',@@port,'/',@@server_id),session_id=CONNECTION_ID(),\
         ttl_us={ttl_us},renewals=0,\
         acquired_at=UTC_TIMESTAMP(6),renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {ttl_us} MICROSECOND,released_at=NULL \
         WHERE action={action} AND (SELECT MAX(version) FROM dlock_schema)={VERSION} \
         AND (claim IS NULL OR expires_at<UTC_TIMESTAMP(6)-INTERVAL {allowance} MICROSECOND{watched});",
        claim = hex(claim.bytes()),
        label = hex(holder.label.as_bytes()),
        host = hex(holder.host.as_bytes()),
        pid = holder.pid,
        user = hex(holder.user.as_bytes()),
        note = hex(holder.note.as_bytes()),
        action = hex_action(action),
        allowance = ALLOWANCE.as_micros(),
    )
}

/// Extends the lease. Changes the row only while claim and token are ours, whatever the server's
/// clock says; the condition is the same every time, so a repetition after a lost reply succeeds.
pub(super) fn renew(action: &Action, grant: Grant, ttl: Duration) -> String {
    format!(
        "UPDATE dlock_lock SET renewals=renewals+1,\
         server=CONCAT(@@hostname,':',@@port,'/',@@server_id),session_id=CONNECTION_ID(),\
         renewed_at=UTC_TIMESTAMP(6),\
         expires_at=UTC_TIMESTAMP(6)+INTERVAL {} MICROSECOND \
         WHERE action={} AND claim={} AND token={};",
        ttl.as_micros(),
        hex_action(action),
        hex(grant.claim.bytes()),
        grant.token,
    )
}

/// Frees the row if it is still ours. "No row changed": it was not ours, or a repetition.
/// `token` is unknown when the answer to the attempt never came; the claim alone is proof enough.
pub(super) fn release(action: &Action, claim: Claim, token: Option<Token>) -> String {
    let condition = token.map_or_else(String::new, |token| format!(" AND token={token}"));
    format!(
        "UPDATE dlock_lock SET claim=NULL,released_at=UTC_TIMESTAMP(6),expires_at=UTC_TIMESTAMP(6) \
         WHERE action={} AND claim={}{condition};",
        hex_action(action),
        hex(claim.bytes()),
    )
}

/// Which rows a [`sight`] shows.
#[derive(Debug, Clone, Copy)]
pub enum Selection<'a> {
    /// Those of these actions.
    Named(&'a [Action]),
    /// Those that are held or lapsed.
    Claimed,
    /// All.
    All,
}

/// Reads rows; no lock is taken. Always yields at least one row, whose action is NULL when there
/// is none to show: the request's number, the version and the server's time come with it.
pub(super) fn sight(request: [u8; 8], selection: Selection) -> String {
    let condition = match selection {
        Selection::Named([]) => "FALSE".to_owned(),
        Selection::Named(actions) => {
            let names: Vec<String> = actions.iter().map(hex_action).collect();
            format!("l.action IN ({})", names.join(","))
        }
        Selection::Claimed => "l.claim IS NOT NULL".to_owned(),
        Selection::All => "TRUE".to_owned(),
    };
    format!(
        "SELECT {} AS request,(SELECT MAX(version) FROM dlock_schema) AS version,\
         TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)) AS server_time,\
         l.action AS action,l.token AS token,l.claim AS claim,l.renewals AS renewals,\
         l.holder AS holder,l.host AS host,l.pid AS pid,l.user AS user,l.note AS note,\
         l.ttl_us AS ttl_us,l.acquired_at AS acquired_at,\
         TIMESTAMPDIFF(MICROSECOND,l.acquired_at,UTC_TIMESTAMP(6)) AS held_us,\
         TIMESTAMPDIFF(MICROSECOND,l.renewed_at,UTC_TIMESTAMP(6)) AS renewed_us,\
         TIMESTAMPDIFF(MICROSECOND,UTC_TIMESTAMP(6),l.expires_at) AS left_us \
         FROM (SELECT 1) AS one LEFT JOIN dlock_lock AS l ON {condition} ORDER BY l.action",
        hex(&request),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{attempt, hex, session};
    use crate::lease::{Claim, Token};
    use crate::store::{Holder, Version};

    #[test]
    fn no_text_of_a_user_stands_in_a_packet_as_itself() {
        let hostile = "x'; DROP TABLE dlock_lock; -- \\";
        let holder = Holder {
            label: hostile.to_owned(),
            host: hostile.to_owned(),
            pid: 1,
            user: hostile.to_owned(),
            note: hostile.to_owned(),
        };
        let action = hostile.parse().expect("a legal if nasty name");
        let packet = attempt(
            &action,
            &holder,
            Duration::from_secs(30),
            Claim::new([7; 16]),
            Some(Version {
                token: Token(5),
                renewals: 6,
            }),
        );
        assert!(!packet.contains("DROP"), "{packet}");
        assert!(packet.contains("OR (token=5 AND renewals=6)"), "{packet}");
    }

    #[test]
    fn hex_of_nothing_is_an_empty_text() {
        assert_eq!(hex(b""), "x''");
        assert_eq!(hex(b"init"), "x'696e6974'");
    }

    #[test]
    fn the_session_timeout_is_the_ttl_rounded_up() {
        assert!(session(Duration::from_millis(2_001)).contains("wait_timeout=3;"));
        assert!(session(Duration::from_secs(30)).contains("wait_timeout=30;"));
    }
}
