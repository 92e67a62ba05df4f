//! Tests of option files: precedence of options, unsafe permissions, and content of errors.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use proptest::prelude::{prop_assert, proptest};
use tempfile::TempDir;

use super::read;
use crate::config::error::Error;
use crate::config::settings::{Setting, Settings};
use crate::exit::Status;

/// A temporary folder with option files. `write` replaces `{}` in the text of a file with the path of the folder.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("the temporary folder is created"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, mode: u32, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let text = text.replace("{}", &self.path().display().to_string());
        fs::create_dir_all(path.parent().expect("the path has a parent"))
            .expect("the folder is created");
        fs::write(&path, text).expect("the file is written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("the mode is set");
        path
    }
}

fn parsed(text: &str) -> Result<Settings, Error> {
    read(&Folder::new().write("my.cnf", 0o600, text))
}

#[test]
fn every_option_is_read() {
    let settings = parsed(
        "[client]\nhost=db\nport=3307\nuser='me'\npassword=\"p#\\\"w\" # x\ndatabase = d\n\
         ssl_mode=VERIFY_CA\nssl-ca=/ca\nssl_cert=/c\nloose-ssl-key=/k\n",
    )
    .expect("the settings are valid");
    let wanted = [
        ("host", "db"),
        ("port", "3307"),
        ("user", "me"),
        ("password", "p#\"w"),
        ("database", "d"),
        ("ssl-mode", "VERIFY_CA"),
        ("ssl-ca", "/ca"),
        ("ssl-cert", "/c"),
        ("ssl-key", "/k"),
    ];
    assert_eq!(settings.texts(), wanted);
}

#[test]
fn dlock_group_overrides_client_group_in_any_order() {
    let settings = parsed(
        "[DLOCK]\nuser=a\nsocket=/s\npassword=\n[mysqld]\nuser=x\nport=1\nrubbish here\n\
         [client]\nuser=b\nhost=db\ndatabase=d\npassword=p\n",
    )
    .expect("the settings are valid");
    let wanted = [
        ("socket", "/s"),
        ("user", "a"),
        ("password", ""),
        ("database", "d"),
    ];
    assert_eq!(settings.texts(), wanted);
}

#[test]
fn unknown_option_is_an_error_only_in_the_dlock_group() {
    for text in [
        "[client]\nno-auto-rehash\nprompt=x\n",
        "[dlock]\nloose-new-option=1\n",
    ] {
        let settings = parsed(text).expect("the unknown option is ignored");
        assert_eq!(settings.texts(), []);
    }
    let error = parsed("[dlock]\n\nS3NTINEL=1\n")
        .expect_err("the option is unknown")
        .to_string();
    assert!(
        error.contains("my.cnf:3: unknown option in [dlock]; the known options are host, port, "),
        "{error}"
    );
}

#[test]
fn included_files_are_read_at_the_position_of_the_include() {
    let folder = Folder::new();
    folder.write("one.cnf", 0o600, "[client]\nuser=one\nhost=one\n");
    folder.write("d/20.cnf", 0o600, "[client]\nport=20\n");
    folder.write("d/10.cnf", 0o600, "[client]\nport=10\nhost=ten\n");
    folder.write(
        "d/.00.cnf",
        0o600,
        "[client]\nhost=hidden\ndatabase=hidden\n",
    );
    folder.write("d/30.cnf", 0o600, "[mysqld]\nport=30\n");
    folder.write("d/40.cnf~", 0o600, "[client]\nport=40\n");
    let path = folder.write(
        "my.cnf",
        0o600,
        "[client]\nuser=first\n!include {}/one.cnf\n!includedir {}/d\nssl-ca=/after\n",
    );
    let settings = read(&path).expect("the settings are valid");
    let wanted = [
        ("host", "ten"),
        ("port", "20"),
        ("user", "one"),
        ("database", "hidden"),
        ("ssl-ca", "/after"),
    ];
    assert_eq!(settings.texts(), wanted);
}

#[test]
fn more_than_ten_nested_includes_are_refused() {
    let folder = Folder::new();
    let path = folder.write("circle.cnf", 0o600, "\n!include {}/circle.cnf\n");
    let error = read(&path).expect_err("the file includes itself");
    assert!(
        error.to_string().contains("circle.cnf:2: more than 10"),
        "{error}"
    );

    folder.write("10.cnf", 0o600, "[client]\nuser=bottom\n");
    for level in 0..10 {
        let text = format!("!include {{}}/{}.cnf\n", level + 1);
        folder.write(&format!("{level}.cnf"), 0o600, &text);
    }
    let settings = read(&folder.path().join("0.cnf")).expect("ten nested includes are allowed");
    assert_eq!(settings.text(Setting::User), Some("bottom"));
}

#[test]
fn files_with_unsafe_permissions_are_refused() {
    let with = "[client]\npassword=S3NTINEL\n";
    for (mode, text, fix) in [
        (0o600, with, None),
        (0o640, with, None),
        (0o644, with, Some("chmod 600 ")),
        (
            0o604,
            "[dlock]\nloose-password=S3NTINEL\n",
            Some("chmod 600 "),
        ),
        (0o644, "[client]\nuser=u\n", None),
        (0o644, "[client]\npassword=\n", None),
        (0o644, "[mysqldump]\npassword=x\n", None),
        (0o602, "[client]\nuser=u\n", Some("chmod o-w ")),
        (0o666, with, Some("chmod o-w ")),
    ] {
        let folder = Folder::new();
        let inner = folder.write("inner.cnf", mode, text);
        let outer = folder.write("outer.cnf", 0o600, "!include {}/inner.cnf\n");
        for path in [&inner, &outer] {
            let Some(fix) = fix else {
                assert!(read(path).is_ok(), "{mode:o} {text}");
                continue;
            };
            let error = read(path).expect_err("the permissions are unsafe");
            let wanted = format!("{fix}{}", inner.display());
            assert!(error.to_string().ends_with(&wanted), "{error}");
            assert!(!error.to_string().contains("S3NTINEL"), "{error}");
            assert_eq!(error.status(), Status::CONFIG);
        }
    }
}

#[test]
fn world_writable_folder_is_refused() {
    let folder = Folder::new();
    folder.write("d/a.cnf", 0o600, "");
    let inner = folder.path().join("d");
    fs::set_permissions(&inner, Permissions::from_mode(0o777)).expect("the mode is set");
    let path = folder.write("my.cnf", 0o600, "!includedir {}/d\n");
    let error = read(&path)
        .expect_err("the permissions are unsafe")
        .to_string();
    assert!(
        error.starts_with(&format!("{}: all users", inner.display())),
        "{error}"
    );
}

#[test]
fn errors_contain_file_and_line() {
    for (text, wanted) in [
        ("user=S3NTINEL", ":1: the option is not in a [group]"),
        ("\n[S3NTINEL", ":2: the group has no closing ]"),
        (
            "[client]\npassword S3NTINEL",
            ":2: the line is not an option; write KEY = VALUE",
        ),
        (
            "[dlock]\n= S3NTINEL",
            ":2: the line is not an option; write KEY = VALUE",
        ),
        ("[client]\npassword", ":2: password needs a value"),
        (
            "[client]\r\n\r\nport=S3NTINEL",
            ":3: port must be a number from 1 to 65535",
        ),
        (
            "[client]\nhost=u:S3NTINEL@db",
            ":2: host is not a host name or an IP address",
        ),
        (
            "[dlock]\nssl-mode=PREFERRED",
            ":2: ssl-mode must not be preferred",
        ),
        ("[client]\nssl=S3NTINEL", ":2: ssl must be on or off"),
        (
            "!include /nowhere.cnf",
            "cannot read /nowhere.cnf: No such file",
        ),
        ("!includedir /nowhere", "cannot read /nowhere: No such file"),
    ] {
        let error = parsed(text).expect_err(text);
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(!error.to_string().contains("S3NTINEL"), "{error}");
        assert_eq!(error.status(), Status::CONFIG);
    }
}

proptest! {
    #[test]
    fn no_error_contains_the_password(
        group in "\\[?(client|dlock)?\\]?\n",
        key in "(loose-)?(password|pass|host|port|user|socket|ssl|ssl_mode|x)?",
        between in "[ =:'\"#\\\\]{0,3}",
        after in "[ '\"#\\\\@/\n]{0,3}",
    ) {
        let text = format!("{group}{key}{between}S3NTINEL{after}");
        if let Err(error) = parsed(&text) {
            prop_assert!(!error.to_string().contains("S3NTINEL"), "{}", error);
            prop_assert!(!format!("{error:?}").contains("S3NTINEL"), "{:?}", error);
        }
    }
}
