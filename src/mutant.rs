//! Mutants are versions of dlock in which one safeguard against two concurrent commands is disabled. Tests run a mutant
//! to prove that a checker finds the fault. A checker that has never failed proves nothing.
//!
//! Without the Cargo feature `mutants`, no safeguard can be disabled, because [`is_disabled`] is a constant `false`. No
//! release is built with this feature, but the test program `dlock-mutant` is. The environment variable `DLOCK_MUTANT`
//! lists the safeguards to disable, separated by commas. The code of each safeguard calls [`is_disabled`].

/// A mechanism that prevents two concurrent commands or makes dlock faster. The description of each variant contains
/// the effect of disabling the safeguard, and ends with the name of the safeguard in `DLOCK_MUTANT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safeguard {
    /// A deadline counts from before the request is sent. If disabled, a deadline counts from after the response. Name:
    /// `send`.
    SendTime,
    /// dlock closes a connection after an error. If disabled, dlock uses the connection again. Name: `connection`.
    FreshConnection,
    /// A response must contain the id of its request. If disabled, dlock accepts any response. Name: `number`.
    OwnReply,
    /// dlock reads the owner id of the record back. If disabled, a response without an error counts as a success. Name:
    /// `owner_id`.
    ReadBack,
    /// The monitor stops the command. If disabled, the monitor only forwards signals. Name: `monitor`.
    Monitor,
    /// The command is dead one margin before the lease expires. If disabled, the margin is zero. Name: `margin`.
    Margin,
    /// An expiry by the server's clock alone does not permit a take-over. If disabled, any contender may take a lease
    /// over as soon as the server's clock shows the expiry. Name: `clock`.
    OwnClock,
    /// All processes of the command are dead before the release. If disabled, descendants of the command may still be
    /// alive. Name: `tree`.
    DeadTree,
    /// The next holder starts before the release is committed. If disabled, the next holder waits for the commit, which
    /// is safe. The benchmark `line` measures the time that a hand-off saves. Name: `handoff`.
    HandOff,
    /// The program has the schema version of these sources. If disabled, the program has the next version, with one more
    /// column, which is safe. `tests/it/versions.rs` runs both programs on the same tables. Name: `schema`.
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
            "handoff" => Safeguard::HandOff,
            "schema" => Safeguard::PresentSchema,
            _ => panic!("DLOCK_MUTANT contains an unknown safeguard: {name}"),
        }
    }
}
