//! The check of the environment variables whose names begin with `DLOCK_`. Without this check, dlock would silently
//! ignore a variable with a typing error.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Command, CommandFactory};

use super::Cli;
use clap::error::ErrorKind;

/// Beginning of the names of dlock's variables.
const PREFIX: &str = "DLOCK_";

/// Beginning of the names of the variables of options. The connection settings, such as `DLOCK_URL`, and the variables
/// that dlock sets for commands have names without `OPT_`.
const OPTION_PREFIX: &str = "DLOCK_OPT_";

/// Returns true if `name` is a variable of an option and not of a connection setting.
#[must_use]
pub fn is_option(name: &OsStr) -> bool {
    name.as_bytes().starts_with(OPTION_PREFIX.as_bytes())
}

/// Variables that dlock sets for its command although an option has a similar variable.
const SET_FOR_COMMANDS: [&str; 3] = ["DLOCK_ACTION", "DLOCK_HOLDER", "DLOCK_TTL"];

/// Returns a warning for each variable that dlock sets for commands and `exec` does not read, if it does not come from an
/// outer dlock. `is_set` returns true if a variable is set.
#[must_use]
pub fn ignored(is_set: impl Fn(&str) -> bool) -> Vec<String> {
    // An outer dlock also sets the token, even for hooks.
    if is_set("DLOCK_TOKEN") {
        return Vec::new();
    }
    let set = SET_FOR_COMMANDS.into_iter().filter(|name| is_set(name));
    let warning = |name: &str| {
        let option = name.replacen(PREFIX, OPTION_PREFIX, 1);
        format!(
            "the environment variable {name} has no effect, because dlock sets it for commands; did you mean {option}?"
        )
    };
    set.map(warning).collect()
}

/// Returns the names of the variables of all options.
#[must_use]
pub fn option_variables() -> Vec<String> {
    variables(&Cli::command())
}

/// Returns the names of the variables of the options of `command` and its subcommands.
fn variables(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(clap::Arg::get_env);
    let own = own.map(|name| name.to_string_lossy().into_owned());
    own.chain(command.get_subcommands().flat_map(variables))
        .collect()
}

/// Checks that each variable in `environment` whose name begins with `DLOCK_` belongs to an option or is one of `others`.
/// `used` is the command line with the options of at least one subcommand.
///
/// Kubernetes sets variables for each Service. For a Service whose name is `dlock` or begins with `dlock-`, their names
/// also begin with `DLOCK_`. These variables are ignored.
///
/// # Errors
/// Returns the usage error for the first unknown variable.
pub(super) fn check(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    others: &[&str],
    used: &Command,
) -> Result<(), clap::Error> {
    let ours = environment
        .into_iter()
        .filter(|(name, _)| name.to_string_lossy().starts_with(PREFIX));
    let of_used = variables(used);
    let mut known = None;
    for (name, value) in ours {
        let name = name.to_string_lossy();
        let is_known = others.contains(&&*name) || of_used.iter().any(|option| **option == *name);
        if is_known || is_service_link(&name, &value) {
            continue;
        }
        let known = known.get_or_insert_with(option_variables);
        if !known.iter().any(|option| **option == *name) {
            let names = known.iter().map(String::as_str);
            let why = unknown(&name, names.chain(others.iter().copied()));
            return Err(clap::Error::raw(ErrorKind::UnknownArgument, why));
        }
    }
    Ok(())
}

fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let as_option = name.replacen(PREFIX, OPTION_PREFIX, 1);
    let distance = |known: &&str| {
        let of = |name: &str| {
            // DLOCK_USERNAME and DLOCK_PASS differ by more letters than typing errors do.
            let is_part = known.starts_with(name) || name.starts_with(known);
            let distance = strsim::damerau_levenshtein(name, known);
            distance.saturating_sub(if is_part { 3 } else { 0 })
        };
        of(name).min(of(&as_option))
    };
    let nearest = known.min_by_key(distance);
    let advice = match nearest.filter(|known| distance(known) <= 3) {
        Some(known) => format!("did you mean {known}?"),
        None => "see the section ENVIRONMENT of dlock(1)".to_owned(),
    };
    format!("the environment variable {name} is unknown; {advice}\n")
}

/// Returns true if Kubernetes may have set the variable for a Service.
fn is_service_link(name: &str, value: &OsStr) -> bool {
    let Some(link) = name.strip_prefix("DLOCK") else {
        return false;
    };
    let is_port = |rest: &str| {
        let mut parts = rest.split('_');
        parts.next().is_some_and(|port| port.parse::<u16>().is_ok())
            && parts
                .next()
                .is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol))
    };
    link.ends_with("_SERVICE_HOST")
        || link.contains("_SERVICE_PORT")
        || link.ends_with("_PORT") && value.to_string_lossy().contains("://")
        || link
            .split_once("_PORT_")
            .is_some_and(|(_, rest)| is_port(rest))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{Cli, SET_FOR_COMMANDS, check, ignored, option_variables};

    fn message(name: &str, value: &str) -> Option<String> {
        let environment = [(name.into(), value.into()), ("PATH".into(), "/bin".into())];
        let checked = check(
            environment,
            &["DLOCK_TOKEN", "DLOCK_PASSWORD"],
            &Cli::command(),
        );
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn unknown_variable_is_a_usage_error_that_suggests_the_nearest_name() {
        for (name, advice) in [
            ("DLOCK_OPT_WIAT", "did you mean DLOCK_OPT_WAIT?"),
            ("DLOCK_WAIT", "did you mean DLOCK_OPT_WAIT?"),
            ("DLOCK_NONBLOK", "did you mean DLOCK_OPT_NONBLOCK?"),
            ("DLOCK_TOKENS", "did you mean DLOCK_TOKEN?"),
            ("DLOCK_QUIET", "did you mean DLOCK_OPT_QUIET?"),
            ("DLOCK_ONCE", "did you mean DLOCK_OPT_ONCE?"),
            ("DLOCK_PASS", "did you mean DLOCK_PASSWORD?"),
            ("DLOCK_USERNAME", "did you mean DLOCK_USER?"),
            ("DLOCK_HOSTNAME", "did you mean DLOCK_HOST?"),
            ("DLOCK_PASWORD_FILE", "did you mean DLOCK_PASSWORD_FILE?"),
            (
                "DLOCK_SOMETHING_ELSE",
                "see the section ENVIRONMENT of dlock(1)",
            ),
        ] {
            assert_eq!(
                message(name, "S3NTINEL").expect("the variable is unknown"),
                format!("error: the environment variable {name} is unknown; {advice}\n")
            );
        }
    }

    #[test]
    fn variable_that_dlock_sets_is_warned_about_if_no_dlock_has_set_it() {
        let warnings = ignored(|name| name == "DLOCK_TTL");
        assert!(warnings[0].contains(" DLOCK_TTL ") && warnings[0].contains("DLOCK_OPT_TTL?"));
        assert_eq!(warnings.len(), 1);
        assert_eq!(ignored(|_| true), [""; 0]);
        let known = option_variables();
        for name in SET_FOR_COMMANDS {
            assert_eq!(ignored(|set| set == name).len(), 1, "{name}");
            assert!(
                known.contains(&name.replace("DLOCK_", "DLOCK_OPT_")),
                "{name}"
            );
        }
    }

    #[test]
    fn known_variables_and_those_of_kubernetes_services_are_accepted() {
        for (name, value) in [
            ("DLOCK_OPT_WAIT", "1s"),
            ("DLOCK_URL", "mysql://db"),
            ("DLOCK_TOKEN", "1"),
            ("DLOCKS_HOME", "1"),
            ("DLOCK_SERVICE_HOST", "10.0.0.1"),
            ("DLOCK_DB_SERVICE_PORT_MYSQL", "3306"),
            ("DLOCK_DB_PORT", "tcp://10.0.0.1:3306"),
            ("DLOCK_DB_PORT_3306_TCP", "tcp://10.0.0.1:3306"),
            ("DLOCK_PORT_3306_TCP_ADDR", "10.0.0.1"),
        ] {
            assert_eq!(message(name, value), None, "{name}");
        }
        assert!(message("DLOCK_DB_PORT", "3306").is_some());
    }
}
