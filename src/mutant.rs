//! Mutants are versions of dlock in which a safeguard is disabled. Tests run mutants to prove that a checker detects
//! the resulting fault, because a checker that has never failed proves nothing.
//!
//! If the Cargo feature `mutants` is off, no safeguard can be disabled, because [`is_disabled`] always returns false.
//! The tests are built with this feature, but no release is. The environment variable `DLOCK_MUTANT` lists the safeguards
//! to disable, separated by commas. The code of each safeguard calls [`is_disabled`].

/// The environment variables of the tests, which dlock ignores. `DLOCK_MUTANT` is known and read only with the feature.
pub const TEST_VARIABLES: &[&str] = &[
    #[cfg(feature = "mutants")]
    "DLOCK_MUTANT",
    "DLOCK_SEED",
    "DLOCK_SEQUENCES",
    "DLOCK_TEST_CACHE",
    "DLOCK_TEST_MYSQLD",
    "DLOCK_TEST_SERVER_DISK",
    "DLOCK_TEST_SERVER_PRELOAD",
    "DLOCK_UNDER_TEST",
    "DLOCK_UPDATE",
];

/// A mechanism that tests can disable. Most of these mechanisms prevent two concurrent commands. The description of
/// each variant contains the effect of disabling the mechanism, and ends with its name in `DLOCK_MUTANT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safeguard {
    /// A deadline is measured from the instant immediately before the request is sent. If disabled, the deadline is
    /// measured from the instant of the response. Name: `send`.
    SendTime,
    /// dlock closes a connection after an error. If disabled, dlock uses the connection again. Name: `connection`.
    FreshConnection,
    /// A response must contain the id of its request. If disabled, dlock accepts any response. Name: `number`.
    OwnReply,
    /// dlock reads the record to confirm that a request succeeded. If disabled, a response without an error counts as a
    /// success. Name: `owner_id`.
    ReadBack,
    /// The monitor stops the command if the lease is lost or is not renewed in time, if the command reaches
    /// `--max-runtime`, or if the parent dies. If disabled, the monitor only handles the signals that dlock receives.
    /// Name: `monitor`.
    Monitor,
    /// The monitor kills the command at least one safety margin before the lease expires. If disabled, the margin is
    /// zero. Name: `margin`.
    Margin,
    /// If a lease has expired by the server's clock but not by the contender's own clock, the contender waits for an
    /// allowance before it takes over the lease. If disabled, any contender may take over the lease as soon as the
    /// lease has expired by the server's clock. Name: `clock`.
    OwnClock,
    /// The command and all its descendants are dead before the release. If disabled, descendants may still be alive.
    /// Name: `tree`.
    DeadTree,
    /// dlock stops and kills a process that it has not started (`hold --pid`), and its descendants and strays. If disabled,
    /// nothing of it is signalled. Name: `ward`.
    Ward,
    /// dlock finds the processes with the variables of the lease in their environment. If disabled, it finds only the
    /// descendants of the process of `hold --pid`. Name: `strays`.
    Strays,
    /// With a hand-off, the next contender may acquire the lease before the release is committed. If disabled, that
    /// contender waits for the commit, which is safe.
    /// Name: `handoff`.
    HandOff,
    /// The sessions that a command has left on the server have ended before another command starts. If disabled, neither
    /// the holder nor a contender ends them or waits for them. Name: `sessions`.
    EndedSessions,
    /// A contender that finds an earlier state of the record, or another database, treats a lost lease as live for a
    /// ttl. If disabled, the contender acquires a lease that is free in the record. Name: `lostgrant`.
    LostGrant,
    /// A holder, and a waiter that is granted the lease, checks that its address still leads to the server of its
    /// connection. If disabled, they trust the connection. Name: `address`.
    AddressCheck,
    /// The program uses the current schema version. If disabled, the program uses the next version, which has one more
    /// column. This is safe. `tests/it/versions.rs` runs both programs on the same tables. Name: `schema`.
    PresentSchema,
}

/// Returns true if `safeguard` is disabled in this program.
#[cfg(not(feature = "mutants"))]
#[must_use]
pub const fn is_disabled(_safeguard: Safeguard) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub use self::switch::is_disabled;

#[cfg(feature = "mutants")]
mod switch {
    use std::env;
    use std::sync::OnceLock;

    use super::Safeguard;

    /// Returns true if `safeguard` is disabled in this program.
    ///
    /// # Panics
    /// Panics if `DLOCK_MUTANT` contains an unknown name, because the test of a mutant that disables no safeguard
    /// proves nothing.
    #[must_use]
    pub fn is_disabled(safeguard: Safeguard) -> bool {
        static DISABLED: OnceLock<Vec<Safeguard>> = OnceLock::new();
        DISABLED
            .get_or_init(|| {
                let names = env::var("DLOCK_MUTANT").unwrap_or_default();
                let names = names.split(',').filter(|name| !name.is_empty());
                names.map(parse).collect()
            })
            .contains(&safeguard)
    }

    fn parse(name: &str) -> Safeguard {
        match name {
            "send" => Safeguard::SendTime,
            "connection" => Safeguard::FreshConnection,
            "number" => Safeguard::OwnReply,
            "owner_id" => Safeguard::ReadBack,
            "monitor" => Safeguard::Monitor,
            "margin" => Safeguard::Margin,
            "clock" => Safeguard::OwnClock,
            "tree" => Safeguard::DeadTree,
            "ward" => Safeguard::Ward,
            "strays" => Safeguard::Strays,
            "handoff" => Safeguard::HandOff,
            "sessions" => Safeguard::EndedSessions,
            "lostgrant" => Safeguard::LostGrant,
            "address" => Safeguard::AddressCheck,
            "schema" => Safeguard::PresentSchema,
            _ => panic!("DLOCK_MUTANT contains an unknown safeguard: {name}"),
        }
    }
}
