//! Mutants: versions of dlock that disable one of the safeguards against two commands at the same time. Tests run them
//! to prove that a checker finds the fault; a checker that never failed proves nothing.
//!
//! Without the feature `mutants`, no safeguard can be disabled: [`is_disabled`] is a constant `false`.
//! No release has the feature. The test program `dlock-mutant` has it, and `DLOCK_MUTANT` lists the safeguards to
//! disable, separated by commas. Each safeguard calls [`is_disabled`] where it is implemented.

/// A mechanism that prevents two commands at the same time, or makes dlock faster. Each variant describes the effect of
/// disabling it, and ends with its name in `DLOCK_MUTANT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Safeguard {
    /// Deadlines count from before the send. If disabled, they count from after the response. `send`
    SendTime,
    /// A connection is closed after an error. If disabled, it is used again. `connection`
    FreshConnection,
    /// A response must contain the id of its request. If disabled, any response is accepted. `number`
    OwnReply,
    /// The owner id of the row is read back. If disabled, a response without an error is a success. `owner_id`
    ReadBack,
    /// The monitor stops the command. If disabled, it only forwards signals. `monitor`
    Monitor,
    /// The command is dead one margin before the lease expires. If disabled, when it expires. `margin`
    Margin,
    /// The server's clock alone does not permit a take-over. If disabled, it does. `clock`
    OwnClock,
    /// All processes of the command are dead before the release. If disabled, some may be alive. `tree`
    DeadTree,
    /// The next holder starts before the release is committed. If disabled, it waits for the commit. Disabling this is
    /// safe; the benchmark `line` measures the time that a hand-off saves. `handoff`
    HandOff,
    /// The program has the schema version of these sources. If disabled, it has the next version, with one more column.
    /// Disabling this is safe; `tests/it/versions.rs` runs both programs on the same tables. `schema`
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
    /// Panics if `DLOCK_MUTANT` contains an unknown name, because a test of a mutant that disables nothing proves
    /// nothing.
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
            _ => panic!("no mechanism is called {name}"),
        }
    }
}
