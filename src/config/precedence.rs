//! The precedence of the sources, and the check that the settings are complete.
//!
//! The sources, from highest to lowest precedence:
//! 1. the command line: the option of the setting, then `--url`
//! 2. the environment: the variable of that option, then `DLOCK_URL`; for the password, `DLOCK_PASSWORD_FILE` and then
//!    `DLOCK_PASSWORD`
//! 3. the URL file
//! 4. the option file
//! 5. the [configuration files](super::config_file)
//! 6. the defaults
//!
//! The URL and every file that the user specifies are read in full, even if sources with higher precedence contain all
//! settings. Otherwise dlock would report an error in a file only when the user removes the variable that overrides the
//! file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use super::config_file::{self, ConfigFile};
use super::error::Error;
use super::flags::{self, Level, both_set};
use super::settings::{Setting, Settings};
use super::value::{self, HostEntry};
use super::{option_file, password, text_file, tls, url};
use crate::cli::connection::ConnectionArgs;
use crate::store::target::{Address, Secret, Target, Targets};

/// The port that IANA has assigned to MySQL.
const PORT: u16 = 3306;

/// The connection settings of all sources, which may be incomplete.
#[derive(Debug)]
pub struct ConnectionSettings {
    settings: Settings,
    files: Vec<ConfigFile>,
}

/// Collects the address of the server, the database, the credentials and the TLS settings.
///
/// `environment` returns the value of an environment variable. It is called only for the password and for the folder of
/// the configuration files, because clap has already read the other variables.
///
/// # Errors
/// Fails if a source is invalid.
pub fn connection_settings(
    args: &ConnectionArgs,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<ConnectionSettings, Error> {
    let files = config_file::paths(&environment);
    with_files(args, environment, files)
}

/// Does the same as [`connection_settings`], with the configuration files at `files`.
fn with_files(
    args: &ConnectionArgs,
    environment: impl Fn(&str) -> Option<OsString>,
    files: Vec<PathBuf>,
) -> Result<ConnectionSettings, Error> {
    let (url_level, url) = url_settings(args)?;
    let url_at = |level| match url_level == level {
        true => url.clone(),
        false => Settings::default(),
    };
    let password = |level: Level, variable| {
        let file = args.password_file.as_deref();
        password::read(file.filter(|_| level.has(args, "password-file")), variable)
    };
    let option_file = args.defaults_file.as_deref().map(option_file::read);
    let sources = [
        flags::settings(args, Level::CommandLine)?,
        password(Level::CommandLine, None)?,
        url_at(Some(Level::CommandLine)),
        flags::settings(args, Level::Environment)?,
        password(Level::Environment, environment(password::VARIABLE))?,
        url_at(Some(Level::Environment)),
        url_at(None),
        option_file.transpose()?.unwrap_or_default(),
    ];
    let specified = sources.into_iter().fold(Settings::default(), Settings::or);
    let (settings, files) = config_file::add(specified, files)?;
    Ok(ConnectionSettings { settings, files })
}

/// Returns the settings in the URL, and the level at which it is given. None if the URL is in a file. A URL or a URL file
/// on the command line replaces both variables.
fn url_settings(args: &ConnectionArgs) -> Result<(Option<Level>, Settings), Error> {
    let at = |level: Level| {
        let url = args.url.as_deref().filter(|_| level.has(args, "url"));
        let file = args.url_file.as_deref();
        (url, file.filter(|_| level.has(args, "url-file")))
    };
    let (level, options) = match at(Level::CommandLine) {
        (None, None) => (Level::Environment, at(Level::Environment)),
        typed => (Level::CommandLine, typed),
    };
    match options {
        (Some(_), Some(_)) => Err(both_set(level, "url", "url-file")),
        (Some(text), None) => {
            let origin = level.origin("url");
            let invalid = |fault| Error::usage(format!("the URL in {origin} {fault}"));
            let settings = url::parse(text, &origin).map_err(invalid)?;
            Ok((Some(level), settings))
        }
        (None, Some(path)) => {
            let origin = path.display().to_string();
            let invalid = |fault| Error::file(format!("{origin}: the URL {fault}"));
            let settings = url::parse(&text_file::value(path)?, &origin).map_err(invalid)?;
            Ok((None, settings))
        }
        (None, None) => Ok((None, Settings::default())),
    }
}

impl ConnectionSettings {
    /// Returns the complete settings, with the defaults.
    ///
    /// # Errors
    /// Fails if the server, the user or the database is missing, if the list of hosts contains a server twice, or if the
    /// TLS settings are incomplete.
    pub fn targets(&self) -> Result<Targets, Error> {
        let settings = &self.settings;
        let missing = || Error::usage(self.missing());
        let default_port = settings.parsed(Setting::Port, value::port)?;
        let address = |HostEntry { host, port }| Address::Tcp {
            host,
            port: port.or(default_port).unwrap_or(PORT),
        };
        let hosts = settings.parsed(Setting::Host, value::hosts)?;
        let hosts = hosts.into_iter().flatten().map(address);
        let socket = settings.parsed(Setting::Socket, value::path)?;
        let addresses: Vec<Address> = hosts.chain(socket.map(Address::Socket)).collect();
        let user = self.text(Setting::User).ok_or_else(missing)?;
        let database = self.text(Setting::Database).ok_or_else(missing)?;
        self.refuse_duplicates(&addresses)?;
        let password = settings.text(Setting::Password);
        let target = |address: Address| {
            Ok(Target {
                tls: tls::settings(&address, settings)?,
                address,
                user: user.to_owned(),
                password: password
                    .filter(|text| !text.is_empty())
                    .map(|text| Secret::new(text.to_owned())),
                database: database.to_owned(),
            })
        };
        let all: Result<Vec<Target>, Error> = addresses.into_iter().map(target).collect();
        let mut all = all?.into_iter();
        let mut targets = Targets::from(all.next().ok_or_else(missing)?);
        targets.extend(all);
        Ok(targets)
    }

    /// Fails if two of `addresses` are equal. Upper and lower case are equal in host names.
    fn refuse_duplicates(&self, addresses: &[Address]) -> Result<(), Error> {
        let mut names = BTreeSet::new();
        let mut is_new = |address: &Address| names.insert(address.to_string().to_ascii_lowercase());
        match addresses.iter().all(&mut is_new) {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "{} contains the same host and port twice",
                self.origin(Setting::Host).unwrap_or("the list of hosts")
            ))),
        }
    }

    /// Returns the value of `setting`. None for the password, and if no source sets it.
    #[must_use]
    pub fn text(&self, setting: Setting) -> Option<&str> {
        let text = self.settings.text(setting);
        text.filter(|_| setting != Setting::Password)
    }

    /// Returns where `setting` is set: an option, an environment variable, a path, or a path and a line. None if no
    /// source sets it.
    #[must_use]
    pub fn origin(&self, setting: Setting) -> Option<&str> {
        self.settings.origin(setting)
    }

    /// Returns the configuration files, from highest to lowest precedence.
    #[must_use]
    pub fn files(&self) -> &[ConfigFile] {
        &self.files
    }

    /// Returns a message that lists all missing settings, so that the user can add all of them after the first failure.
    fn missing(&self) -> String {
        let has = |setting| self.settings.contains(setting);
        let absent: Vec<&str> = [
            (
                has(Setting::Host) || has(Setting::Socket),
                "no server (set --host or DLOCK_HOST, --socket or DLOCK_SOCKET)",
            ),
            (has(Setting::User), "no user (set --user or DLOCK_USER)"),
            (
                has(Setting::Database),
                "no database (set --database or DLOCK_DATABASE)",
            ),
        ]
        .into_iter()
        .filter_map(|(is_set, what)| (!is_set).then_some(what))
        .collect();
        let ignored = self.files.iter().find_map(|file| {
            let origin = file.ignored_because_of.as_ref()?;
            let path = file.path.display();
            Some(format!(
                "; {path} is ignored, because {origin} sets the server"
            ))
        });
        format!(
            "{}; alternatively, use a URL (--url or DLOCK_URL), an option file (--defaults-file) or a configuration \
             file{}",
            absent.join(", "),
            ignored.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests;
