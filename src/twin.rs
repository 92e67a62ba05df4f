//! Twins: a dlock that leaves out one of the mechanisms that keep two commands apart. A test shows
//! with it that its checker would notice; a checker that never failed proves nothing.
//!
//! Without the feature `twins` nothing can be left out: [`is_out`] is `false` when it is compiled.
//! No release has the feature; the tests' own program `dlock-twin` does, and `DLOCK_TWIN` names
//! what it leaves out, with commas in between. Each mechanism is asked for where it is.

/// Something that keeps two commands apart, or makes the program faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// Deadlines count from before the send. Without it: from after the reply. `send`
    SendTime,
    /// A connection that has seen an error is dropped. Without it: kept. `connection`
    FreshConnection,
    /// A reply must carry its question's number. Without it: any reply will do. `number`
    OwnReply,
    /// Whose the row is, is read back. Without it: what is no error is a success. `claim`
    ReadBack,
    /// The monitor stops the command. Without it: it only passes signals on. `monitor`
    Monitor,
    /// The command is dead a margin before the lease ends. Without it: when it ends. `margin`
    Margin,
    /// The server's clock alone lets nobody take a lease over. Without it: it does. `clock`
    OwnClock,
    /// What the command leaves behind is dead before the release. Without it: alive. `tree`
    DeadTree,
    /// The next holder starts before the release is committed. Without it: it waits for the commit. Leaving this out
    /// is safe; the benchmark `line` shows what the hand-off saves. `handoff`
    HandOff,
}

/// Whether this program leaves `mechanism` out.
#[cfg(not(feature = "twins"))]
#[must_use]
pub const fn is_out(_mechanism: Mechanism) -> bool {
    false
}

#[cfg(feature = "twins")]
pub use self::switch::is_out;

#[cfg(feature = "twins")]
mod switch {
    use std::env;
    use std::sync::OnceLock;

    use super::Mechanism;

    /// Whether this program leaves `mechanism` out.
    ///
    /// # Panics
    /// When `DLOCK_TWIN` names something else: a twin that lacks nothing would prove nothing.
    #[must_use]
    pub fn is_out(mechanism: Mechanism) -> bool {
        static OUT: OnceLock<Vec<Mechanism>> = OnceLock::new();
        OUT.get_or_init(|| {
            let names = env::var("DLOCK_TWIN").unwrap_or_default();
            let names = names.split(',').filter(|name| !name.is_empty());
            names.map(named).collect()
        })
        .contains(&mechanism)
    }

    fn named(name: &str) -> Mechanism {
        match name {
            "send" => Mechanism::SendTime,
            "connection" => Mechanism::FreshConnection,
            "number" => Mechanism::OwnReply,
            "claim" => Mechanism::ReadBack,
            "monitor" => Mechanism::Monitor,
            "margin" => Mechanism::Margin,
            "clock" => Mechanism::OwnClock,
            "tree" => Mechanism::DeadTree,
            "handoff" => Mechanism::HandOff,
            _ => panic!("no mechanism is called {name}"),
        }
    }
}
