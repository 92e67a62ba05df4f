//! What `dlock doctor` finds out: one fact a finding, and whether anything has to be done about it.
//!
//! Only the words. What is asked, and how an answer is judged, is `store::mysql::doctor`'s.

/// What is looked at, in this order: each makes sense only where those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The host name resolves.
    Address,
    /// A server answers there.
    Connect,
    /// What protects the connection.
    Tls,
    /// The server lets the account in.
    Login,
    /// The database is there, and the account may use it.
    Database,
    /// What server it is.
    Server,
    /// Whether it is one node of several.
    Cluster,
    /// Whether something between takes part in the protocol.
    Proxy,
    /// Whether the settings that dlock makes for its session last.
    Session,
    /// Whether the server lets anybody write.
    Writes,
    /// Whether the account may do what `exec` does.
    Grants,
    /// Whether the tables are what dlock made.
    Tables,
    /// Whether the named lock that makes the line works.
    Gate,
    /// Whether a crash of the server forgets grants.
    Durability,
    /// Whether a fail-over does.
    Replication,
    /// How far apart the clocks are.
    Clock,
    /// How long a question takes.
    RoundTrip,
    /// How many more may wait.
    Connections,
}

impl Check {
    /// All of them, in order.
    pub const ALL: [Self; 18] = [
        Self::Address,
        Self::Connect,
        Self::Tls,
        Self::Login,
        Self::Database,
        Self::Server,
        Self::Cluster,
        Self::Proxy,
        Self::Session,
        Self::Writes,
        Self::Grants,
        Self::Tables,
        Self::Gate,
        Self::Durability,
        Self::Replication,
        Self::Clock,
        Self::RoundTrip,
        Self::Connections,
    ];

    /// Its name in both forms of the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Login => "login",
            Self::Database => "database",
            Self::Server => "server",
            Self::Cluster => "cluster",
            Self::Proxy => "proxy",
            Self::Session => "session",
            Self::Writes => "writes",
            Self::Grants => "grants",
            Self::Tables => "tables",
            Self::Gate => "gate",
            Self::Durability => "durability",
            Self::Replication => "replication",
            Self::Clock => "clock",
            Self::RoundTrip => "round-trip",
            Self::Connections => "connections",
        }
    }
}

/// What has to be done about a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Ok,
    /// Nothing, but somebody should know it.
    Note(Advice),
    /// dlock does not work, or does not keep its promise, until this is mended.
    Mend(Advice),
    /// Nothing is known.
    Unchecked,
}

/// What belongs to a fact that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Why it matters.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

impl Advice {
    fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

/// One fact and its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: Check,
    /// What has to be done.
    pub verdict: Verdict,
    /// What was seen; may hold text of the server, so it is escaped where it is printed.
    pub fact: String,
}

impl Finding {
    /// All is as it should be.
    pub fn ok(check: Check, fact: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, fact)
    }

    /// It works, with a consequence that somebody should know.
    pub fn note(
        check: Check,
        fact: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Note(Advice::new(why, remedy)), fact)
    }

    /// It must be mended.
    pub fn mend(
        check: Check,
        fact: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(check, Verdict::Mend(Advice::new(why, remedy)), fact)
    }

    /// It is not known, because of `fact`, which may be empty.
    pub fn unchecked(check: Check, fact: impl Into<String>) -> Self {
        Self::new(check, Verdict::Unchecked, fact)
    }

    fn new(check: Check, verdict: Verdict, fact: impl Into<String>) -> Self {
        Self {
            check,
            verdict,
            fact: fact.into(),
        }
    }

    /// Whether it must be mended.
    #[must_use]
    pub const fn is_mend(&self) -> bool {
        matches!(self.verdict, Verdict::Mend(_))
    }
}

#[cfg(test)]
mod tests {
    use super::Check;

    #[test]
    fn the_list_of_checks_is_in_their_order_and_names_each_once() {
        assert!(Check::ALL.is_sorted());
        let mut names: Vec<&str> = Check::ALL.iter().map(|check| check.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Check::ALL.len());
    }
}
