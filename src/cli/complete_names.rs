//! The grammar of `complete-names`, a hidden subcommand that the shell completions run.

use std::ffi::OsString;

use clap::Args;

use super::connection::ConnectionArgs;
use super::parse::parse_options;

/// Options of `complete-names`.
#[derive(Debug, Args)]
pub struct CompleteNamesArgs {
    /// Beginning of the names to print.
    #[arg(value_name = "PREFIX", allow_hyphen_values = true)]
    pub prefix: String,

    /// The words of the unfinished command line before the cursor.
    #[arg(value_name = "WORD", last = true)]
    pub words: Vec<OsString>,
}

impl CompleteNamesArgs {
    /// Returns the connection options of the unfinished command line, completed from the environment. All other
    /// options are ignored. None if a connection option or its variable is invalid.
    #[must_use]
    pub fn connection(&self) -> Option<ConnectionArgs> {
        let command = ConnectionArgs::augment_args(clap::Command::new("dlock"));
        let is_connection_option = |word: &str| {
            let mut options = command.get_arguments().filter_map(clap::Arg::get_long);
            options.any(|option| word.strip_prefix("--") == Some(option))
        };
        let mut options = vec!["dlock".into()];
        let mut words = self.words.iter().take_while(|word| *word != "--");
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            match text.split_once('=') {
                Some((option, _)) if is_connection_option(option) => options.push(word.clone()),
                None if is_connection_option(&text) => {
                    options.push(word.clone());
                    options.extend(words.next().cloned());
                }
                _ => {}
            }
        }
        // The parser needs a subcommand.
        options.extend(["complete-names", ""].map(OsString::from));
        Some(parse_options(&options).ok()?.common.connection)
    }
}

#[cfg(test)]
mod tests {
    use super::CompleteNamesArgs;

    #[test]
    fn only_the_connection_options_of_the_unfinished_line_are_used() {
        let words = "dlock --host=db exec --note --x --user me -t 5s --port 1 --port 3307 -a -- --host other";
        let args = CompleteNamesArgs {
            prefix: String::new(),
            words: words.split(' ').map(Into::into).collect(),
        };
        let found = args.connection().expect("the options are valid");
        assert_eq!(found.host.as_deref(), Some("db"));
        assert_eq!(found.user.as_deref(), Some("me"));
        assert_eq!(found.port, Some(3307));
    }

    #[test]
    fn invalid_connection_option_gives_none() {
        let args = CompleteNamesArgs {
            prefix: String::new(),
            words: vec!["--port".into(), "x".into()],
        };
        assert!(args.connection().is_none());
    }
}
