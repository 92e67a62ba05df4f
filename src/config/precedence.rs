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

use std::ffi::OsString;
use std::path::PathBuf;

use super::config_file::{self, ConfigFile, ConfigFileState};
use super::error::Error;
use super::flags::{self, Level, both_set};
use super::settings::{Endpoint, HostEntry, Partial, Source};
use super::{option_file, password, text_file, tls, url};
use crate::cli::connection::ConnectionArgs;
use crate::store::target::{Address, Target, Targets};

/// The port that IANA has assigned to MySQL.
const PORT: u16 = 3306;

/// The connection settings of all sources, which may be incomplete.
#[derive(Debug)]
pub struct ConnectionSettings {
    source: Source,
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
    let typed = Level::CommandLine.of(args);
    let mut inherited = Level::Environment.of(args);
    if typed.url.is_some() || typed.url_file.is_some() {
        (inherited.url, inherited.url_file) = (None, None);
    }
    let typed_settings = single_settings(&typed, Level::CommandLine, None)?;
    let inherited_settings = single_settings(
        &inherited,
        Level::Environment,
        environment(password::VARIABLE),
    )?;
    let url_file = match typed.url_file.as_ref().or(inherited.url_file.as_ref()) {
        Some(path) => {
            let settings = url::parse(&text_file::value(path)?)
                .map_err(|fault| Error::file(format!("{}: the URL {fault}", path.display())))?;
            Source::new(settings, |_| path.display().to_string())
        }
        None => Source::default(),
    };
    let option_file = match &args.defaults_file {
        Some(path) => option_file::read(path)?,
        None => Source::default(),
    };
    let specified = typed_settings
        .or(inherited_settings)
        .or(url_file)
        .or(option_file);
    let (source, files) = config_file::add(specified, files)?;
    Ok(ConnectionSettings { source, files })
}

/// Returns the settings in `args`, which are given at `level`, except those in the URL file and the option file.
/// `password` is the value of the variable that contains the password.
fn single_settings(
    args: &ConnectionArgs,
    level: Level,
    password: Option<OsString>,
) -> Result<Source, Error> {
    if args.url.is_some() && args.url_file.is_some() {
        return Err(both_set(level, "url", "url-file"));
    }
    let password = password::read(args.password_file.as_deref(), password)?;
    let url = match &args.url {
        Some(text) => {
            let origin = level.origin("url");
            let settings = url::parse(text)
                .map_err(|fault| Error::usage(format!("the URL in {origin} {fault}")))?;
            Source::new(settings, |_| origin.clone())
        }
        None => Source::default(),
    };
    Ok(flags::settings(args, level)?.or(password).or(url))
}

impl ConnectionSettings {
    /// Returns the complete settings, with the defaults.
    ///
    /// # Errors
    /// Fails if the server, the user or the database is missing, if the list of hosts contains a server twice, or if the
    /// TLS settings are incomplete.
    pub fn targets(&self) -> Result<Targets, Error> {
        let merged = self.source.settings.clone();
        let (Some(endpoint), Some(user), Some(database)) =
            (merged.endpoint, merged.user, merged.database)
        else {
            return Err(Error::usage(self.missing()));
        };
        let default_port = merged.port.unwrap_or(PORT);
        let address = |HostEntry { host, port }| Address::Tcp {
            host,
            port: port.unwrap_or(default_port),
        };
        let addresses: Vec<Address> = match endpoint {
            Endpoint::Hosts(hosts) => hosts.into_iter().map(address).collect(),
            Endpoint::Socket(path) => vec![Address::Socket(path)],
        };
        self.refuse_duplicates(&addresses)?;
        let password = merged
            .password
            .filter(|password| !password.reveal().is_empty());
        let target = |address: Address| {
            let tls = tls::settings(
                &address,
                merged.ssl_mode,
                merged.ssl_ca.clone(),
                merged.ssl_cert.clone(),
                merged.ssl_key.clone(),
            )?;
            Ok(Target {
                address,
                user: user.clone(),
                password: password.clone(),
                database: database.clone(),
                tls,
            })
        };
        let all: Result<Vec<Target>, Error> = addresses.into_iter().map(target).collect();
        let mut all = all?.into_iter();
        let first = all.next().ok_or_else(|| Error::usage(self.missing()))?;
        let mut targets = Targets::from(first);
        targets.extend(all);
        Ok(targets)
    }

    /// Fails if two of `addresses` are equal. Upper and lower case are equal in host names.
    fn refuse_duplicates(&self, addresses: &[Address]) -> Result<(), Error> {
        let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        let is_repeated = |(number, name): (usize, &String)| {
            names[..number]
                .iter()
                .any(|it| it.eq_ignore_ascii_case(name))
        };
        match names.iter().enumerate().any(is_repeated) {
            true => Err(Error::usage(format!(
                "{} contains the same host and port twice",
                self.origin("host").unwrap_or("the list of hosts")
            ))),
            false => Ok(()),
        }
    }

    /// Returns the database. None if no source sets it.
    #[must_use]
    pub fn database(&self) -> Option<&str> {
        self.source.settings.database.as_deref()
    }

    /// Returns the user. None if no source sets it.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.source.settings.user.as_deref()
    }

    /// Returns where the setting `name` is set: an option, an environment variable, a path, or a path and a line.
    /// `name` is spelled as in option files. None if no source sets it.
    #[must_use]
    pub fn origin(&self, name: &str) -> Option<&str> {
        self.source.origins.get(name).map(String::as_str)
    }

    /// Returns the configuration files, from highest to lowest precedence.
    #[must_use]
    pub fn files(&self) -> &[ConfigFile] {
        &self.files
    }

    /// Returns a message that lists all missing settings, so that the user can add all of them after the first failure.
    fn missing(&self) -> String {
        let Partial {
            endpoint,
            user,
            database,
            ..
        } = &self.source.settings;
        let absent: Vec<&str> = [
            (
                endpoint.is_none(),
                "no server (set --host or DLOCK_HOST, --socket or DLOCK_SOCKET)",
            ),
            (user.is_none(), "no user (set --user or DLOCK_USER)"),
            (
                database.is_none(),
                "no database (set --database or DLOCK_DATABASE)",
            ),
        ]
        .into_iter()
        .filter_map(|(is_absent, what)| is_absent.then_some(what))
        .collect();
        let ignored = self.files.iter().find_map(|file| match &file.state {
            ConfigFileState::Ignored(origin) if file.path.exists() => Some(format!(
                "; {} is ignored, because {origin} sets the server",
                file.path.display()
            )),
            _ => None,
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
