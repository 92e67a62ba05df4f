//! Tests of the precedence of the sources, and of the configuration files.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::{any, prop_assert, proptest};
use tempfile::TempDir;

use super::{ConnectionSettings, with_files};
use crate::cli::connection::ConnectionArgs;
use crate::config::{Error, Setting};
use crate::exit::Status;
use crate::store::target::{Address, Secret, SslMode, Target, Tls};

/// Returns the settings in `args` and `environment`, without configuration files.
fn target(
    args: &ConnectionArgs,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Target, Error> {
    first(&with_files(args, environment, Vec::new())?)
}

fn first(settings: &ConnectionSettings) -> Result<Target, Error> {
    settings.targets().map(|targets| targets.first().clone())
}

fn none(_: &str) -> Option<OsString> {
    None
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn tcp(host: &str, port: u16) -> Address {
    Address::Tcp {
        host: host.to_owned(),
        port,
    }
}

/// Creates a file with mode 0600 in `folder`.
fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.path().join(name);
    fs::write(&path, text).expect("the file is written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("the mode is set");
    path
}

fn url(text: &str) -> ConnectionArgs {
    ConnectionArgs {
        url: Some(text.to_owned()),
        ..ConnectionArgs::default()
    }
}

#[test]
fn several_hosts_share_the_default_port_and_differ_in_their_tls_mode() {
    let args = ConnectionArgs {
        host: Some(text("localhost,db:3308,[::1]")),
        port: Some(3307),
        ..url("mysql://u@other/x")
    };
    let settings = with_files(&args, none, Vec::new()).expect("the settings are valid");
    let targets = settings.targets().expect("the settings are complete");
    assert_eq!(targets.to_string(), "localhost:3307,db:3308,[::1]:3307");
    let modes: Vec<SslMode> = targets.iter().map(|target| target.tls.mode).collect();
    let (off, on) = (SslMode::Disabled, SslMode::VerifyIdentity);
    assert_eq!(modes, [off, on, off]);
    assert!(targets.iter().all(|target| target.user == "u"));
}

#[test]
fn host_that_is_listed_twice_is_refused() {
    for hosts in ["db,db", "db,DB:3306", "a,db:3306,b,db"] {
        let args = ConnectionArgs {
            host: Some(text(hosts)),
            ..url("mysql://u@other/x")
        };
        let error = target(&args, none).expect_err("a host is listed twice");
        assert_eq!(error.status(), Status::USAGE);
        let wanted = "DLOCK_HOST contains the same host and port twice";
        assert_eq!(error.to_string(), wanted, "{hosts}");
    }
    let args = url("mysql://u@db:3306,db:3307/x");
    assert!(target(&args, none).is_ok());
}

#[test]
fn url_alone_is_sufficient() {
    let wanted = Target {
        address: tcp("db", 3306),
        user: "u".to_owned(),
        password: Some(Secret::new("p".to_owned())),
        database: "x".to_owned(),
        tls: Tls {
            mode: SslMode::VerifyIdentity,
            chosen: false,
            ca: None,
            identity: None,
        },
    };
    assert_eq!(target(&url("mysql://u:p@db/x"), none), Ok(wanted));
}

#[test]
fn flags_override_the_url_and_the_url_overrides_the_option_file() {
    let folder = tempfile::tempdir().expect("the temporary folder is created");
    let options = "[client]\nhost=c\nport=1\nuser=c\npassword=c\ndatabase=c\nssl-ca=/c\n";
    let mut args = ConnectionArgs {
        defaults_file: Some(file(&folder, "my.cnf", options)),
        ..ConnectionArgs::default()
    };
    let found = target(&args, none).expect("the file has all settings");
    assert_eq!((found.address, &*found.user), (tcp("c", 1), "c"));

    args.url_file = Some(file(&folder, "url", "mysql://b:b@b/b\n"));
    let found = target(&args, none).expect("the settings are valid");
    assert_eq!((found.address, &*found.user), (tcp("b", 1), "b"));
    assert_eq!(found.database, "b");
    assert_eq!(found.tls.ca, Some("/c".into()));
    assert_eq!(found.password.as_ref().map(Secret::reveal), Some("b"));

    args.host = Some(text("a"));
    args.user = Some(text("a"));
    let found = target(&args, none).expect("the settings are valid");
    assert_eq!(
        (found.address, &*found.user, &*found.database),
        (tcp("a", 1), "a", "b")
    );

    let environment = |name: &str| (name == "DLOCK_PASSWORD").then(|| "variable".into());
    let found = target(&args, environment).expect("the settings are valid");
    assert_eq!(
        found.password.as_ref().map(Secret::reveal),
        Some("variable")
    );

    args.password_file = Some(file(&folder, "password", "file\n"));
    let found = target(&args, environment).expect("the settings are valid");
    assert_eq!(found.password.as_ref().map(Secret::reveal), Some("file"));
}

#[test]
fn source_with_the_highest_precedence_sets_the_server() {
    let mut args = url("mysql://u@db/x");
    args.socket = Some("/s".into());
    assert_eq!(
        target(&args, none).expect("the settings are valid").address,
        Address::Socket("/s".into())
    );

    let mut args = url("mysql://u@localhost/x?socket=/s");
    assert_eq!(
        target(&args, none).expect("the settings are valid").address,
        Address::Socket("/s".into())
    );
    args.host = Some(text("localhost"));
    assert_eq!(
        target(&args, none).expect("the settings are valid").address,
        tcp("localhost", 3306)
    );
}

#[test]
fn empty_password_in_a_file_means_no_password() {
    let folder = tempfile::tempdir().expect("the temporary folder is created");
    let options = "[client]\nhost=c\nuser=c\ndatabase=c\npassword=c\n[dlock]\npassword=\n";
    let args = ConnectionArgs {
        defaults_file: Some(file(&folder, "my.cnf", options)),
        ..ConnectionArgs::default()
    };
    assert_eq!(
        target(&args, none)
            .expect("the settings are valid")
            .password,
        None
    );
}

#[test]
fn missing_settings_are_reported_with_flag_and_variable() {
    let error = target(&ConnectionArgs::default(), none)
        .expect_err("all settings are missing")
        .to_string();
    for name in [
        "--host",
        "DLOCK_SOCKET",
        "--user",
        "DLOCK_USER",
        "DLOCK_DATABASE",
    ] {
        assert!(error.contains(name), "{error}");
    }
    let error = target(&url("mysql://u@db"), none).expect_err("the database is missing");
    assert_eq!(
        error.to_string(),
        "no database (set --database or DLOCK_DATABASE); alternatively, use a URL (--url or \
         DLOCK_URL), an option file (--defaults-file) or a configuration file"
    );
    assert_eq!(error.status(), Status::USAGE);
}

#[test]
fn invalid_url_exits_64_from_an_option_and_78_from_a_file() {
    let bad = "mysql://d:S3NTINEL@ss/w0rd@host/db";
    let error = target(&url(bad), none).expect_err("the setting is invalid");
    assert!(
        error
            .to_string()
            .contains("percent-encode special characters"),
        "{error}"
    );
    assert_eq!(error.status(), Status::USAGE);

    let folder = tempfile::tempdir().expect("the temporary folder is created");
    let mut args = ConnectionArgs {
        url_file: Some(file(&folder, "url", bad)),
        ..ConnectionArgs::default()
    };
    let error = target(&args, none).expect_err("the setting is invalid");
    assert!(
        error.to_string().contains("/url: the URL is ambiguous"),
        "{error}"
    );
    assert!(!error.to_string().contains("S3NTINEL"), "{error}");
    assert_eq!(error.status(), Status::CONFIG);

    args.url = Some(text("mysql://u@db/x"));
    let error = target(&args, none).expect_err("both URL options are set");
    assert_eq!(error.status(), Status::USAGE);
}

#[test]
fn command_line_overrides_the_environment() {
    let folder = tempfile::tempdir().expect("the temporary folder is created");
    let mut args = url("mysql://a@a/a");
    args.host = Some(text("b"));
    args.user = Some(text("b"));
    args.url_file = Some(file(&folder, "url", "mysql://c@c/c"));
    target(&args, none).expect_err("both variables are set");

    args.on_command_line = vec![text("url")];
    let found = target(&args, none).expect("the URL is on the command line");
    assert_eq!((found.address, &*found.user), (tcp("a", 3306), "a"));

    args.on_command_line = vec![text("url-file"), text("user")];
    let found = target(&args, none).expect("DLOCK_URL is ignored");
    assert_eq!(
        (found.address, &*found.user, &*found.database),
        (tcp("b", 3306), "b", "c")
    );

    args.socket = Some("/s".into());
    target(&args, none).expect_err("the host and the socket are variables");
    args.on_command_line.push(text("socket"));
    let found = target(&args, none).expect("the socket is on the command line");
    assert_eq!(found.address, Address::Socket("/s".into()));
}

#[test]
fn misplaced_password_of_a_url_is_not_shown() {
    for text in [
        "mysql://u:S3NTINEL#w@host/db",
        "mysql://u:S3NTINEL%zz@host/db",
        "mysql://u:S3NTINEL w@host/db",
        "mysql://u:S3NTINEL@host:S3NTINEL/db",
        "mysql://u:S3NTINEL@[::1/db",
        "mysql://u:S3NTINEL@/db",
        "mysql://u:S3NTINEL@host/db/S3NTINEL",
        "mysql://u@host/db#S3NTINEL",
        "mysql://host:S3NTINEL/db",
        "mysql:u:S3NTINEL@host/db",
        "mysql:/u:S3NTINEL@host/db",
        "postgres://u:S3NTINEL@host/db",
        "S3NTINEL",
    ] {
        let error = target(&url(text), none).expect_err(text);
        assert!(!error.to_string().contains("S3NTINEL"), "{error}");
        assert_eq!(error.status(), Status::USAGE);
    }
}

/// Returns the settings in `args` with two configuration files that contain `user` and `system`.
fn with_config(
    args: &ConnectionArgs,
    user: &str,
    system: &str,
) -> (TempDir, Result<ConnectionSettings, Error>) {
    let folder = tempfile::tempdir().expect("the temporary folder is created");
    let files = vec![file(&folder, "user", user), file(&folder, "system", system)];
    let settings = with_files(args, none, files);
    (folder, settings)
}

#[test]
fn user_file_overrides_the_system_file_field_by_field() {
    let user = "[client]\nhost=c\n[dlock]\nuser=a\npassword=p\n";
    let system = "[dlock]\nuser=b\nhost=db\ndatabase=d\nport=1\n";
    let (folder, settings) = with_config(&ConnectionArgs::default(), user, system);
    let settings = settings.expect("the files are valid");
    let found = first(&settings).expect("the settings are complete");
    assert_eq!((found.address, &*found.user), (tcp("db", 1), "a"));
    assert_eq!(found.password.as_ref().map(Secret::reveal), Some("p"));
    let origin = |setting| settings.origin(setting).map(PathBuf::from);
    let path = |name| Some(folder.path().join(name));
    assert_eq!(origin(Setting::User), path("user:4"));
    assert_eq!(origin(Setting::Password), path("user:5"));
    assert_eq!(origin(Setting::Host), path("system:3"));
    assert_eq!(origin(Setting::SslMode), None);
}

#[test]
fn config_file_is_ignored_if_a_source_before_it_sets_the_server() {
    let system = "[dlock]\nhost=other\npassword=S3NTINEL\nuser=u\ndatabase=d\nport=1\n";
    let (_folder, settings) = with_config(
        &ConnectionArgs::default(),
        "[dlock]\nhost=db\nuser=a\n",
        system,
    );
    let settings = settings.expect("the files are valid");
    let error = settings
        .targets()
        .expect_err("the database is missing")
        .to_string();
    assert!(error.starts_with("no database"), "{error}");
    assert!(error.contains("/system is ignored, because "), "{error}");
    assert!(error.ends_with("/user:2 sets the server"), "{error}");

    for (args, origin) in [
        (url("mysql://u@db/x"), "DLOCK_URL"),
        (
            ConnectionArgs {
                socket: Some("/s".into()),
                ..ConnectionArgs::default()
            },
            "DLOCK_SOCKET",
        ),
    ] {
        // An ignored file is not read, so it may be invalid.
        let (_folder, settings) = with_config(&args, "rubbish", system);
        let settings = settings.expect("both files are ignored");
        assert_eq!(settings.files().len(), 2);
        for file in settings.files() {
            assert_eq!(file.ignored_because_of.as_deref(), Some(origin));
        }
        assert_eq!(settings.origin(Setting::Password), None);
    }
}

#[test]
fn missing_config_file_is_no_error_and_an_invalid_one_exits_78() {
    let folder = tempfile::tempdir().expect("the temporary folder is created");
    let config = |path: PathBuf| with_files(&ConnectionArgs::default(), none, vec![path]);
    for missing in ["none", "none/none", "file/none"] {
        file(&folder, "file", "");
        let settings = config(folder.path().join(missing)).expect("the file does not exist");
        assert_eq!(settings.files(), []);
    }
    for (content, wanted) in [
        (
            "[dlock]\n\nttl=S3NTINEL\n",
            ":3: unknown option in [dlock]; the known",
        ),
        ("[dlock]\nport=S3NTINEL\n", ":2: port must be a number"),
        ("host=S3NTINEL\n", ":1: the option is not in a [group]"),
    ] {
        let path = file(&folder, "file", content);
        let error = config(path.clone()).expect_err(content);
        let wanted = format!("{}{wanted}", path.display());
        assert!(error.to_string().starts_with(&wanted), "{error}");
        assert!(!error.to_string().contains("S3NTINEL"), "{error}");
        assert_eq!(error.status(), Status::CONFIG);
    }
    let error = config(folder.path().to_owned()).expect_err("a folder is not a file");
    assert!(error.to_string().contains("Is a directory"), "{error}");
    assert_eq!(error.status(), Status::CONFIG);
}

#[test]
fn config_file_with_unsafe_permissions_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("the temporary folder is created");
    for (mode, content, is_safe) in [
        (0o644, "[dlock]\nhost=db\n", true),
        (0o644, "[client]\npassword=x\n", true),
        (0o644, "[dlock]\npassword=x\n", false),
        (0o666, "[dlock]\nhost=db\n", false),
        (0o666, "", false),
    ] {
        let path = file(&folder, "file", content);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("the mode is set");
        let settings = with_files(&ConnectionArgs::default(), none, vec![path]);
        assert_eq!(settings.is_ok(), is_safe, "{mode:o} {content}");
    }
}

proptest! {
    #[test]
    fn no_message_contains_the_password_of_a_url(
        before in "[ -~]{0,4}",
        after in "[ -~]{0,4}",
        tail in any::<String>(),
    ) {
        let text = format!("mysql://d:{before}S3NTINEL{after}@h/{tail}");
        let shown = match target(&url(&text), none) {
            Ok(found) => format!("{found:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains("S3NTINEL"), "{}", shown);
    }
}
