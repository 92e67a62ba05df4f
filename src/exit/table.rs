//! The table of the exit statuses: what each status means, which subcommands return it, who sets it, and what to do next.
//! The help, `dlock explain` and the man pages are generated from this table, and a test compares the tables in
//! dlock-operations(7) and docs/guarantees.md with it.

/// The subcommands that never connect to a server.
pub const OFFLINE: [&str; 4] = ["explain", "copy-to", "version", "help"];

/// The subcommands to which a meaning applies.
enum Scope {
    All,
    /// All that connect to the server.
    Connecting,
    /// All that fail if the server does not respond. `serve` waits for the server.
    NeedingResponse,
    /// These. The text itself shows that it applies only to them.
    Of(&'static [&'static str]),
    /// These. A list of all meanings names them before the text.
    Only(&'static [&'static str]),
}

use Scope::{All, Connecting, NeedingResponse, Of, Only};

impl Scope {
    fn contains(&self, subcommand: &str) -> bool {
        let connects = !OFFLINE.contains(&subcommand);
        match self {
            All => true,
            Connecting => connects,
            NeedingResponse => connects && subcommand != "serve",
            Of(subcommands) | Only(subcommands) => subcommands.contains(&subcommand),
        }
    }

    /// Returns the words before the text in a list of all meanings.
    fn prefix(&self) -> String {
        match self {
            Only([rest @ .., last]) if !rest.is_empty() => {
                format!("for {} and {last}: ", rest.join(", "))
            }
            Only(subcommands) => format!("for {}: ", subcommands.concat()),
            _ => String::new(),
        }
    }
}

const DLOCK_OR_COMMAND_SUCCEEDED: &str =
    "dlock, or the command, because dlock passes the status of the command on";

const ONLY_DLOCK: &str = "dlock";

const DLOCK_OR_COMMAND: &str = "dlock, or the command, because dlock passes the status of the command on. If dlock sets \
     the status, a message on stderr names the status";

/// One exit status.
pub struct TableRow {
    /// The number, or a description.
    pub status: &'static str,
    meanings: &'static [(Scope, &'static str)],
    /// The program or person that sets the status.
    pub set_by: &'static str,
    /// Steps to take next. Each step is a command or another measure, and its reason.
    pub next: &'static [(&'static str, &'static str)],
}

impl TableRow {
    /// Returns all meanings in one line.
    #[must_use]
    pub fn meaning(&self) -> String {
        let texts = self.meanings.iter();
        let texts = texts.map(|(scope, text)| format!("{}{text}", scope.prefix()));
        texts.collect::<Vec<_>>().join("; ")
    }

    /// Returns the meanings for `subcommand` in one line. None if `subcommand` never returns this status.
    #[must_use]
    pub fn meaning_for(&self, subcommand: &str) -> Option<String> {
        let meanings = self.meanings.iter();
        let texts: Vec<&str> = meanings
            .filter(|(scope, _)| scope.contains(subcommand))
            .map(|(_, text)| *text)
            .collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// Every exit status.
pub const TABLE: &[TableRow] = &[
    TableRow {
        status: "the command's own",
        meanings: &[(
            Of(&["exec"]),
            "passed on unchanged; 128+n if signal n killed the command",
        )],
        set_by: "the command",
        next: &[("dlock history NAME", "shows the results of the last runs")],
    },
    TableRow {
        status: "0",
        meanings: &[
            (All, "the command or the dlock subcommand succeeded"),
            (
                Of(&["status"]),
                "for status --check: no action is held or paused",
            ),
        ],
        set_by: DLOCK_OR_COMMAND_SUCCEEDED,
        next: &[("dlock history NAME", "shows the results of the last runs")],
    },
    TableRow {
        status: "64",
        meanings: &[
            (
                All,
                "usage error: the command line or an environment variable is invalid",
            ),
            (Only(&["exec", "hold"]), "the ttl is too short"),
            (
                Only(&["hold"]),
                "--pid names no process, or one that dlock must not stop",
            ),
            (Only(&["release", "prune"]), "the user did not confirm"),
            (Only(&["serve"]), "the address needs --token-file"),
        ],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            ("dlock SUBCOMMAND -h", "lists the options"),
            ("env | grep DLOCK_", "lists the variables that dlock reads"),
        ],
    },
    TableRow {
        status: "66",
        meanings: &[
            (
                Only(&["release"]),
                "there was nothing to release, pause or resume",
            ),
            (Only(&["leader"]), "the lock has no leader"),
            (Only(&["forget"]), "no process has ever used the lock"),
        ],
        set_by: ONLY_DLOCK,
        next: &[(
            "dlock status --all",
            "shows the names and states of all locks",
        )],
    },
    TableRow {
        status: "69",
        meanings: &[
            (
                NeedingResponse,
                "the server could not be reached or did not respond in time",
            ),
            (
                Only(&["exec", "hold", "wait"]),
                "--connect-timeout sets the limit",
            ),
            (Only(&["hold"]), "the server did not confirm the release"),
            (
                Only(&[
                    "exec", "hold", "release", "forget", "prune", "setup", "check", "wait", "note",
                ]),
                "the server is read-only",
            ),
            (
                Of(&["status"]),
                "for status --check: the server is read-only, so its data may be old",
            ),
        ],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            (
                "dlock doctor",
                "checks the address, the connection and the server",
            ),
            (
                "dlock exec --connect-timeout 5m NAME -- COMMAND",
                "waits longer for the server",
            ),
        ],
    },
    TableRow {
        status: "70",
        meanings: &[(All, "internal error")],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            (
                "dlock -v SUBCOMMAND ...",
                "shows the steps before the error",
            ),
            (
                "dlock version",
                "prints what a report of the error has to contain",
            ),
        ],
    },
    TableRow {
        status: "75",
        meanings: &[
            (
                Of(&["exec", "hold", "wait"]),
                "the action was held or paused, or sessions of an earlier run had not ended on the server, until the waiting time ran out",
            ),
            (Only(&["exec", "hold"]), "-E changes this status"),
            (
                Only(&["hold"]),
                "stdin or the process of --pid ended before the lock was held",
            ),
            (
                Of(&["wait"]),
                "for wait --done: no success until the timeout",
            ),
            (
                Of(&["status"]),
                "for status --check: an action is held or paused",
            ),
        ],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            (
                "dlock status NAME",
                "shows the holder, the waiters and the pause",
            ),
            ("dlock exec --wait 10m NAME -- COMMAND", "waits longer"),
            (
                "dlock release NAME",
                "revokes the lease of a holder that hangs",
            ),
            ("dlock release NAME --resume", "resumes a paused lock"),
        ],
    },
    TableRow {
        status: "76",
        meanings: &[
            (
                Of(&["exec"]),
                "the lease was lost or could not be renewed, and the command was stopped",
            ),
            (
                Only(&["hold"]),
                "the lease was lost or could not be renewed, and the program was told to stop, or the process of --pid was stopped",
            ),
            (
                Of(&["exec"]),
                "with --once or --once-per: the command's success could not be recorded",
            ),
            (
                Of(&["exec", "hold"]),
                "a process of the command was still alive when a signal ended dlock",
            ),
            (
                Of(&["exec", "hold"]),
                "the token of an outer dlock is not current",
            ),
            (
                Only(&["check", "note", "release"]),
                "the token is not current",
            ),
        ],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            (
                "dlock history NAME",
                "shows whether the lease was lost or an operator revoked it",
            ),
            (
                "dlock status NAME",
                "shows who holds the lock now, and the token",
            ),
            ("dlock doctor", "checks the server and the connection"),
            (
                "dlock exec --ttl 2m NAME -- COMMAND",
                "survives longer outages of the server",
            ),
        ],
    },
    TableRow {
        status: "77",
        meanings: &[(
            Connecting,
            "the server denied access, or privileges are missing",
        )],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            ("dlock doctor", "lists the missing privileges"),
            ("dlock setup --print", "prints the GRANT statements"),
        ],
    },
    TableRow {
        status: "78",
        meanings: &[
            (
                Connecting,
                "configuration error: unknown database, missing or incompatible tables, invalid file, unsuitable server or proxy, or TLS failure",
            ),
            (
                Of(&["release", "status"]),
                "for release and status --check: the row of the lock is odd",
            ),
            (Only(&["doctor"]), "a check failed"),
            (
                Only(&["serve"]),
                "the address cannot be used, or the token is too short",
            ),
        ],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            (
                "dlock doctor",
                "shows the settings and how to fix each failure",
            ),
            ("dlock setup", "creates or upgrades the tables"),
        ],
    },
    TableRow {
        status: "124",
        meanings: &[(
            Of(&["exec", "hold"]),
            "the run took longer than --max-runtime allows",
        )],
        set_by: DLOCK_OR_COMMAND,
        next: &[
            ("dlock history NAME", "shows the durations of the last runs"),
            (
                "dlock exec --max-runtime 2h NAME -- COMMAND",
                "allows a longer run",
            ),
        ],
    },
    TableRow {
        status: "126",
        meanings: &[(
            Of(&["exec"]),
            "the command was found but cannot be executed",
        )],
        set_by: "dlock, or a shell that the command starts. If dlock sets the status, a message on stderr names \
                 the status",
        next: &[("chmod +x FILE", "makes a script executable")],
    },
    TableRow {
        status: "127",
        meanings: &[(
            Of(&["exec"]),
            "the command, or the interpreter of a script, was not found",
        )],
        set_by: "dlock, or a shell that the command starts. If dlock sets the status, a message on stderr names \
                 the status",
        next: &[
            (
                "command -v COMMAND",
                "shows whether the shell finds the command in PATH",
            ),
            (
                "head -n 1 FILE | cat -A",
                "shows the interpreter, and a carriage return (^M) after it",
            ),
            (
                "dlock exec NAME -- sh -c '...'",
                "runs a line that needs a shell, for example with && or a pipe",
            ),
        ],
    },
    TableRow {
        status: "128+n",
        meanings: &[(
            Of(&["exec", "hold", "wait"]),
            "signal n ended dlock before it started a command or held the lock",
        )],
        set_by: "dlock, the command or a shell: signal n ended the command, or it ended dlock before the command started",
        next: &[
            (
                "dlock history NAME",
                "shows whether the signal ended the command",
            ),
            (
                "dmesg",
                "shows whether memory ran out, so that the kernel sent SIGKILL (137)",
            ),
        ],
    },
];

/// Returns the status and the meaning of each row for `subcommand`. If `subcommand` is None, returns all rows with all
/// meanings.
#[must_use]
pub fn rows(subcommand: Option<&str>) -> Vec<(&'static str, String)> {
    let meaning = |row: &TableRow| match subcommand {
        Some(subcommand) => row.meaning_for(subcommand),
        None => Some(row.meaning()),
    };
    let rows = TABLE.iter();
    rows.filter_map(|row| Some((row.status, meaning(row)?)))
        .collect()
}

/// Returns the rows for `subcommand`, or all rows, as plain text in two columns, for `--help`.
#[must_use]
pub fn help(subcommand: Option<&str>) -> String {
    let rows = rows(subcommand);
    let width = rows.iter().map(|(status, _)| status.len()).max();
    let lines = rows
        .iter()
        .map(|(status, meaning)| format!("  {status:<w$}  {meaning}", w = width.unwrap_or(0)));
    format!("Exit status:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Returns the row of the exit status `code`. A status above 128 that is not in the table is the row of the signals. Any
/// other status is the command's own.
///
/// # Panics
/// Panics if the table has no row for one of these kinds.
#[must_use]
pub fn row_of(code: u8) -> &'static TableRow {
    let named = |name: &str| TABLE.iter().find(|row| row.status == name);
    let kind = match code {
        129..=192 => "128+n",
        _ => "the command's own",
    };
    named(&code.to_string())
        .or_else(|| named(kind))
        .expect("the table has both kinds")
}
