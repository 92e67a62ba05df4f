//! Facts about this process for `status`: labels, so none of them may cost time or fail.

use std::process;

/// The host's name; in Kubernetes the pod's.
#[must_use]
pub fn name() -> String {
    hostname::get().map_or_else(
        |_| "localhost".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Our process id.
#[must_use]
pub fn pid() -> u32 {
    process::id()
}

/// Our user: as login and cron say it, else the number. Not from the user database, which may be
/// a directory server that is down.
#[must_use]
pub fn user() -> String {
    ["USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
        .unwrap_or_else(|| rustix::process::geteuid().as_raw().to_string())
}
