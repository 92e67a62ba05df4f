//! Reads the sessions of a command from the server's process list, and kills sessions.

use std::fmt::Write as _;

use super::fragments::{HERE, REQUEST};
use crate::store::session::SessionLook;
use crate::store::session_states::STATEMENT_LENGTH;

/// Condition that this account certainly sees the sessions of all accounts. A privilege from a role does not count.
const SEES_ALL: &str = "EXISTS(SELECT 1 FROM information_schema.user_privileges WHERE privilege_type='PROCESS' \
     AND grantee=CONCAT('''',REPLACE(CURRENT_USER(),'@','''@'''),''''))";

/// Start time of the server in seconds since 1970. The server derives both values from the same clock, so the result
/// changes only when the server restarts. Each flavour keeps the variable in a different schema and skips the comment
/// for the other.
///
/// If the clock is set to a time before the start, the server returns a negative uptime as an unsigned number. The CAST
/// makes it negative again.
pub(super) const STARTED: &str = "UNIX_TIMESTAMP()-(SELECT CAST(variable_value AS SIGNED) \
     FROM /*!50700 performance_schema.*//*M! information_schema.*/global_status \
     WHERE variable_name='Uptime')";

/// Process id that the client of the session `p` reports. Only MySQL has it, and only for sessions of this account.
const CLIENT_PID: &str = "/*!80000 (SELECT a.attr_value FROM performance_schema.session_account_connect_attrs AS a \
     WHERE a.processlist_id=p.id AND a.attr_name='_pid')*//*M! NULL*/";

/// Reads the sessions that `look` needs, and dlock's own session. Takes no lock. Each row also contains the server, its
/// start time, its port and the id of dlock's own session. If the server lists no session, there is one row with a
/// NULL id.
pub(in crate::store::mysql) fn process_list(look: &SessionLook) -> String {
    let list = |items: Vec<String>| items.join(",");
    let ports = look.connections.tcp.iter();
    let ports = list(ports.map(|socket| format!("'{}'", socket.port())).collect());
    let noted = look.note.iter().flat_map(|note| &note.sessions);
    let noted = list(noted.map(|session| session.id.to_string()).collect());
    let pids = look.connections.pids.iter();
    let pids = list(pids.map(|pid| format!("'{pid}'")).collect());
    let mut wanted = "i.id=CONNECTION_ID()".to_owned();
    for (column, items) in [
        ("SUBSTRING_INDEX(i.host,':',-1)", &ports),
        ("i.id", &noted),
        ("i.client_pid", &pids),
    ] {
        if !items.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(wanted, " OR {column} IN ({items})");
        }
    }
    let client_pid = match pids.is_empty() {
        true => "NULL",
        false => CLIENT_PID,
    };
    format!(
        "SELECT {REQUEST},{HERE} AS server,{STARTED} AS started,@@port AS server_port,CONNECTION_ID() AS own,i.* \
         FROM (SELECT 1) AS one LEFT JOIN (SELECT p.*,{client_pid} AS client_pid FROM {listed} AS p) AS i \
         ON {wanted}",
        listed = listed(""),
    )
}

/// Reads the sessions with the ids in `noted`, and dlock's own session, for `status`. Takes no lock. Reads no text of a
/// statement unless `statements` is true. The rows are those of [`process_list`], without the process ids.
pub(in crate::store::mysql) fn session_states(noted: &[u64], statements: bool) -> String {
    let noted: Vec<String> = noted.iter().map(u64::to_string).collect();
    let statement = match statements {
        true => format!(",LEFT(info,{STATEMENT_LENGTH}) AS statement"),
        false => String::new(),
    };
    format!(
        "SELECT {REQUEST},{HERE} AS server,{STARTED} AS started,{SEES_ALL} AS sees_all,CONNECTION_ID() AS own,i.* \
         FROM (SELECT 1) AS one LEFT JOIN {listed} AS i ON i.id=CONNECTION_ID() OR i.id IN ({noted})",
        listed = listed(&statement),
        noted = noted.join(","),
    )
}

/// Returns a subquery for all sessions that this account can see, as [`SESSIONS`](super::fragments::SESSIONS), with what
/// they do and with the additional columns `more`. On MySQL, only `performance_schema` lists a killed session until its
/// rollback has ended.
fn listed(more: &str) -> String {
    format!(
        "(SELECT id,user,host,command,time,state{more} FROM information_schema.processlist\
         /*!80022 WHERE FALSE UNION ALL \
         SELECT id,user,host,command,time,state{more} FROM performance_schema.processlist*/)"
    )
}

/// Kills the session with the id `session`.
pub(in crate::store::mysql) fn kill_session(session: u64) -> String {
    format!("KILL {session};SELECT {REQUEST},1 AS answer")
}
