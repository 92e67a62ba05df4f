//! The signals with which a user may choose to stop a command, by name and by number. Pure.
//!
//! These are all signals with a name whose default action ends a process. Real-time signals have no names of their own
//! and are not accepted.

use libc::{
    SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGIO, SIGKILL, SIGPIPE, SIGPROF,
    SIGPWR, SIGQUIT, SIGSEGV, SIGSTKFLT, SIGSYS, SIGTERM, SIGTRAP, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};

/// The accepted signals with their names, in the order of the numbers.
const SIGNALS: [(&str, i32); 23] = [
    ("HUP", SIGHUP),
    ("INT", SIGINT),
    ("QUIT", SIGQUIT),
    ("ILL", SIGILL),
    ("TRAP", SIGTRAP),
    ("ABRT", SIGABRT),
    ("BUS", SIGBUS),
    ("FPE", SIGFPE),
    ("KILL", SIGKILL),
    ("USR1", SIGUSR1),
    ("SEGV", SIGSEGV),
    ("USR2", SIGUSR2),
    ("PIPE", SIGPIPE),
    ("ALRM", SIGALRM),
    ("TERM", SIGTERM),
    ("STKFLT", SIGSTKFLT),
    ("XCPU", SIGXCPU),
    ("XFSZ", SIGXFSZ),
    ("VTALRM", SIGVTALRM),
    ("PROF", SIGPROF),
    ("IO", SIGIO),
    ("PWR", SIGPWR),
    ("SYS", SIGSYS),
];

/// Returns the name of `signal` without SIG. None if the signal is not one of the accepted ones.
#[must_use]
pub fn name(signal: i32) -> Option<&'static str> {
    let found = SIGNALS.iter().find(|(_, number)| *number == signal);
    found.map(|(name, _)| *name)
}

/// Returns the number of the signal in `text`, which is a name with or without SIG, in upper or lower case, or a number.
///
/// # Errors
/// Returns a message that lists the accepted signals if `text` is not one of them.
pub fn parse(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let is_chosen = |(known, number): &&(&str, i32)| *known == name || number.to_string() == text;
    match SIGNALS.iter().find(is_chosen) {
        Some((_, number)) => Ok(*number),
        None => Err(format!(
            "must be the name or the number of a signal that ends a process: {}",
            SIGNALS.map(|(known, _)| known).join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{SIGNALS, parse};
    use crate::sys::signal::is_fatal;

    #[test]
    fn signal_is_a_name_in_any_case_or_a_number() {
        for text in ["INT", "SIGINT", "int", "SigInt", "2"] {
            assert_eq!(parse(text), Ok(2), "{text}");
        }
        assert_eq!(parse("KILL"), Ok(9));
        assert_eq!(parse("usr1"), Ok(10));
        assert_eq!(parse("31"), Ok(31));
    }

    #[test]
    fn signal_that_does_not_end_a_process_is_rejected_with_the_accepted_names() {
        let texts = [
            "STOP",
            "19",
            "SIGCONT",
            "tstp",
            "CHLD",
            "WINCH",
            "URG",
            "RTMIN",
            "34",
            "64",
            "0",
            "-2",
            "+2",
            "02",
            "2 ",
            "",
            "SIG",
            "SIGSIGINT",
            "SIG2",
            "nonsense",
        ];
        for text in texts {
            let why = parse(text).expect_err(text);
            assert!(why.contains(": HUP, INT, QUIT"), "{text}: {why}");
        }
    }

    #[test]
    fn every_signal_with_a_name_that_ends_a_process_is_accepted() {
        const STOP: i32 = 19;
        let fatal = (1..32).filter(|number| is_fatal(*number) && *number != STOP);
        let accepted = SIGNALS.map(|(_, number)| number);
        assert_eq!(fatal.collect::<Vec<_>>(), accepted);
    }
}
