//! The signals with which a user may choose to stop a command, by name and by number. Pure.
//!
//! These are all signals with a name whose default action ends a process. Real-time signals have no names of their own
//! and are not accepted.

use libc::SIGSTOP;

use super::signal::is_fatal;
use super::signal_name::NAMES;

/// Returns the accepted signals with their names, in the order of the numbers.
fn accepted() -> impl Iterator<Item = (&'static str, i32)> {
    let is_accepted = |signal: &(&str, i32)| is_fatal(signal.1) && signal.1 != SIGSTOP;
    NAMES.into_iter().filter(is_accepted)
}

/// Returns the number of the signal in `text`, which is a name with or without SIG, in upper or lower case, or a number.
///
/// # Errors
/// Returns a message that lists the accepted signals if `text` is not one of them.
pub fn parse(text: &str) -> Result<i32, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let is_chosen = |(known, number): &(&str, i32)| *known == name || number.to_string() == text;
    match accepted().find(is_chosen) {
        Some((_, number)) => Ok(number),
        None => Err(format!(
            "must be the name or the number of a signal that ends a process: {}",
            accepted()
                .map(|(known, _)| known)
                .collect::<Vec<_>>()
                .join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{accepted, parse};

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
        let accepted: Vec<i32> = accepted().map(|(_, number)| number).collect();
        assert_eq!(accepted.len(), 23);
        assert!(!accepted.contains(&19), "SIGSTOP");
    }
}
