//! The names of signals. Pure.

use libc::{
    SIGABRT, SIGALRM, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGIO, SIGKILL,
    SIGPIPE, SIGPROF, SIGPWR, SIGQUIT, SIGSEGV, SIGSTKFLT, SIGSTOP, SIGSYS, SIGTERM, SIGTRAP,
    SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGUSR1, SIGUSR2, SIGVTALRM, SIGWINCH, SIGXCPU, SIGXFSZ,
};

/// The signals that have a name of their own, without SIG, in the order of the numbers. Real-time signals have none.
pub(super) const NAMES: [(&str, i32); 31] = [
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
    ("CHLD", SIGCHLD),
    ("CONT", SIGCONT),
    ("STOP", SIGSTOP),
    ("TSTP", SIGTSTP),
    ("TTIN", SIGTTIN),
    ("TTOU", SIGTTOU),
    ("URG", SIGURG),
    ("XCPU", SIGXCPU),
    ("XFSZ", SIGXFSZ),
    ("VTALRM", SIGVTALRM),
    ("PROF", SIGPROF),
    ("WINCH", SIGWINCH),
    ("IO", SIGIO),
    ("PWR", SIGPWR),
    ("SYS", SIGSYS),
];

/// Returns the name of a signal, for example `SIGKILL`, or `signal 34` if the signal has no name.
#[must_use]
pub fn name(signal: i32) -> String {
    match NAMES.iter().find(|(_, number)| *number == signal) {
        Some((name, _)) => format!("SIG{name}"),
        None => format!("signal {signal}"),
    }
}

/// Returns the name and the number of a signal, for example `SIGKILL (9)`, or `signal 34` if the signal has no name.
#[must_use]
pub fn describe(signal: i32) -> String {
    match name(signal) {
        name if name.starts_with("SIG") => format!("{name} ({signal})"),
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{NAMES, describe};

    #[test]
    fn every_signal_has_a_name_and_a_number() {
        assert_eq!(
            NAMES.map(|(_, number)| number),
            std::array::from_fn(|at| i32::try_from(at + 1).expect("small"))
        );
        assert_eq!(describe(9), "SIGKILL (9)");
        assert_eq!(describe(20), "SIGTSTP (20)");
        assert_eq!(describe(34), "signal 34");
        assert_eq!(describe(0), "signal 0");
    }
}
