//! The connection settings: the value of each setting, and where it is set.
//!
//! Each source of settings sets pairs of a [`Setting`] and a text. A text is checked when it is set, so that the error
//! names the source. The texts of all settings are [`Secret`]s, because a user may have put the password into the wrong
//! option.

use std::collections::BTreeMap;

use strum::{EnumString, IntoStaticStr, VariantArray};

use super::error::Error;
use super::value::{self, InvalidValue};
use crate::store::target::Secret;

/// A connection setting.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
pub enum Setting {
    /// One host or a list of hosts.
    Host,
    /// The port of the hosts that specify no port.
    Port,
    /// Path of a Unix socket.
    Socket,
    /// User name of the account.
    User,
    /// If the password is empty, dlock logs in without a password. An empty password also overrides sources with lower
    /// precedence.
    Password,
    /// Database that contains dlock's tables.
    Database,
    /// TLS mode.
    SslMode,
    /// File with CA certificates.
    SslCa,
    /// File with the client certificate.
    SslCert,
    /// File with the private key of the client certificate.
    SslKey,
}

impl Setting {
    /// All settings, in the order in which `dlock doctor` shows them.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the name, as option files spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Checks that `text` is a value of this setting.
    fn check(self, text: &str) -> Result<(), InvalidValue> {
        match self {
            Self::Host => value::hosts(text).map(drop),
            Self::Port => value::port(text).map(drop),
            Self::User | Self::Database => value::name(text).map(drop),
            Self::Password => Ok(()),
            Self::SslMode => value::ssl_mode(text).map(drop),
            Self::Socket | Self::SslCa | Self::SslCert | Self::SslKey => {
                value::path(text).map(drop)
            }
        }
    }
}

/// The value of a setting, and where it is set.
#[derive(Debug, Clone)]
struct Given {
    text: Secret,
    /// An option, an environment variable, a path, or a path and a line.
    origin: String,
}

/// The settings of one source, or of several merged sources. A source sets the host or the socket, but not both: a host
/// overrides a socket from a source with lower precedence, and vice versa. Otherwise dlock could acquire the lock on the
/// wrong server.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings(BTreeMap<Setting, Given>);

impl Settings {
    /// Sets `setting` to `text`, which replaces an earlier value. Fails if `text` is no valid value.
    pub(super) fn set(
        &mut self,
        setting: Setting,
        text: String,
        origin: &str,
    ) -> Result<(), InvalidValue> {
        setting.check(&text)?;
        self.set_valid(setting, text, origin);
        Ok(())
    }

    /// Sets `setting` to `text`, which is a valid value.
    pub(super) fn set_valid(&mut self, setting: Setting, text: String, origin: &str) {
        let (text, origin) = (Secret::new(text), origin.to_owned());
        self.0.insert(setting, Given { text, origin });
    }

    pub(super) fn remove(&mut self, setting: Setting) {
        self.0.remove(&setting);
    }

    /// Removes the host if it is only `localhost`, without a port, and a socket is set too, as the `mysql` client does.
    pub(super) fn prefer_socket_to_localhost(&mut self) {
        let host = self.text(Setting::Host);
        let is_localhost = host.is_some_and(|host| host.eq_ignore_ascii_case("localhost"));
        if is_localhost && self.contains(Setting::Socket) {
            self.remove(Setting::Host);
        }
    }

    /// Adds the settings of `lower`, which has lower precedence, that are missing.
    #[must_use]
    pub(super) fn or(self, mut lower: Self) -> Self {
        if self.server_origin().is_some() {
            lower.remove(Setting::Host);
            lower.remove(Setting::Socket);
        }
        lower.0.extend(self.0);
        lower
    }

    pub(super) fn contains(&self, setting: Setting) -> bool {
        self.0.contains_key(&setting)
    }

    /// Returns the value of `setting`. None if it is not set.
    pub(super) fn text(&self, setting: Setting) -> Option<&str> {
        self.0.get(&setting).map(|given| given.text.reveal())
    }

    /// Returns the value of `setting`, parsed with `parse`. None if it is not set.
    pub(super) fn parsed<T>(
        &self,
        setting: Setting,
        parse: impl Fn(&str) -> Result<T, InvalidValue>,
    ) -> Result<Option<T>, Error> {
        let parsed = self.text(setting).map(parse).transpose();
        // Never fails, because the value was checked when it was set.
        parsed.map_err(|fault| Error::usage(format!("{} {fault}", setting.name())))
    }

    /// Returns where `setting` is set. None if it is not set.
    pub(super) fn origin(&self, setting: Setting) -> Option<&str> {
        self.0.get(&setting).map(|given| given.origin.as_str())
    }

    /// Returns the origin of the host or the socket. None if neither is set.
    pub(super) fn server_origin(&self) -> Option<&str> {
        self.origin(Setting::Host)
            .or_else(|| self.origin(Setting::Socket))
    }

    /// Returns the names and the values of the settings.
    #[cfg(test)]
    pub(super) fn texts(&self) -> Vec<(&'static str, &str)> {
        let texts = self.0.iter();
        texts
            .map(|(setting, given)| (setting.name(), given.text.reveal()))
            .collect()
    }
}
