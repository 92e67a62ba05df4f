//! Sources of the connection settings: flags, variables, URLs and files, and their precedence.

use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Database, Flavour, shared};

use super::{all_reach, bare};

/// Writes `text` to the file `name`, which only its owner can read, and returns the path of the file.
pub(crate) fn private(stage: &Stage, name: &str, text: &str) -> PathBuf {
    let path = stage.path(name);
    fs::write(&path, text).expect("the folder is writable");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the test owns the file");
    path
}

/// Returns the socket path of the shared server of `flavour`.
fn socket(flavour: Flavour) -> &'static str {
    let socket = shared(flavour).socket();
    socket.to_str().expect("the socket's path is UTF-8")
}

#[test]
fn a_url_comes_from_a_flag_a_variable_or_a_file() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("url");
        let stage = Stage::new();
        let file = private(&stage, "url", &format!("{}\n", database.url()));
        let runs = [
            ("flag", bare().arg("--url").arg(database.url())),
            ("variable", bare().env("DLOCK_URL", database.url())),
            ("file", bare().arg("--url-file").arg(&file)),
            ("file by variable", bare().env("DLOCK_URL_FILE", &file)),
            (
                "before the subcommand",
                Dlock::new(["--url", &database.url(), "exec"]),
            ),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn single_settings_come_from_flags_or_variables() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("single");
        let port = server.port().to_string();
        let flags = [
            "--host",
            "127.0.0.1",
            "--port",
            &port,
            "--user",
            &database.user,
            "--database",
            &database.name,
        ];
        let by_flag = flags.iter().fold(bare(), Dlock::arg);
        let by_variable = bare()
            .env("DLOCK_HOST", "127.0.0.1")
            .env("DLOCK_PORT", &port)
            .env("DLOCK_USER", &database.user)
            .env("DLOCK_DATABASE", &database.name);
        let runs = [("flags", by_flag), ("variables", by_variable)]
            .map(|(name, dlock)| (name, dlock.env("DLOCK_PASSWORD", &database.password)));
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn the_password_comes_from_a_file_or_a_variable() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("password");
        let stage = Stage::new();
        let url = format!(
            "mysql://{}@127.0.0.1:{}/{}",
            database.user,
            server.port(),
            database.name
        );
        let line = private(&stage, "line", &format!("{}\n", database.password));
        let bytes = private(&stage, "bytes", &database.password);
        let run = || bare().env("DLOCK_URL", &url);
        let runs = [
            ("file", run().arg("--password-file").arg(&line)),
            (
                "file without a line end",
                run().arg("--password-file").arg(&bytes),
            ),
            ("file by variable", run().env("DLOCK_PASSWORD_FILE", &line)),
            ("variable", run().env("DLOCK_PASSWORD", &database.password)),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn a_password_with_special_characters_works_from_every_source() {
    const PASSWORD: &str = r#"p@/?#% "'\é[]"#;
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("characters");
        let mut root = server.admin();
        let text = PASSWORD.replace('\\', "\\\\").replace('\'', "\\'");
        let alter = format!("ALTER USER '{}'@'%' IDENTIFIED BY '{text}'", database.user);
        root.query_drop(alter).expect("root has the privilege");
        let stage = Stage::new();
        let encoded = PASSWORD.bytes().fold(String::new(), |mut all, byte| {
            write!(all, "%{byte:02X}").expect("writing to a String cannot fail");
            all
        });
        let place = format!("127.0.0.1:{}/{}", server.port(), database.name);
        let quoted = PASSWORD.replace('\\', "\\\\").replace('"', "\\\"");
        let options = private(&stage, "cnf", &format!("[client]\npassword=\"{quoted}\"\n"));
        let file = private(&stage, "password", PASSWORD);
        let run = || bare().env("DLOCK_URL", format!("mysql://{}@{place}", database.user));
        let runs = [
            (
                "url",
                bare().env(
                    "DLOCK_URL",
                    format!("mysql://{}:{encoded}@{place}", database.user),
                ),
            ),
            ("variable", run().env("DLOCK_PASSWORD", PASSWORD)),
            ("file", run().arg("--password-file").arg(file)),
            ("option file", run().arg("--defaults-file").arg(options)),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn an_option_file_provides_settings_by_group_and_by_include() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("options");
        let stage = Stage::new();
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let port = server.port();
        let client = format!(
            "[mysqld]\nport = 1\n[client]\nhost = 127.0.0.1\nport = {port}\nuser = {user} # who\npassword = '{password}'\n"
        );
        private(&stage, "included.cnf", &client);
        let include = format!("!include {}\n", stage.path("included.cnf").display());
        let dlock_group = format!("[dlock]\ndatabase = {name}\n");
        let whole = private(&stage, "whole", &format!("{client}{dlock_group}"));
        let over = format!("{client}database = not_this\n{dlock_group}");
        let over = private(&stage, "over", &over);
        let including = private(&stage, "including", &format!("{include}{dlock_group}"));
        let by_socket = format!(
            "[client]\nsocket = {}\nuser={user}\npassword={password}\n{dlock_group}",
            socket(flavour)
        );
        let by_socket = private(&stage, "socket", &by_socket);
        let run = |file: &PathBuf| bare().arg("--defaults-file").arg(file);
        let runs = [
            ("both groups", run(&whole)),
            ("dlock over client", run(&over)),
            ("included", run(&including)),
            ("socket", run(&by_socket)),
            ("by variable", bare().env("DLOCK_DEFAULTS_FILE", &whole)),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn a_unix_socket_is_named_by_the_url_or_by_a_setting() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("socket");
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let socket = socket(flavour);
        // No process listens on port 1, so a connection over TCP fails.
        let url = format!("mysql://{user}:{password}@localhost:1/{name}");
        let runs = [
            ("url", bare().env("DLOCK_URL", database.socket_url())),
            (
                "flag over url",
                bare().env("DLOCK_URL", url).arg("--socket").arg(socket),
            ),
            (
                "variables",
                bare()
                    .env("DLOCK_SOCKET", socket)
                    .env("DLOCK_USER", user)
                    .env("DLOCK_DATABASE", name)
                    .env("DLOCK_PASSWORD", password),
            ),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn precedence_is_flag_then_variable_then_url_then_option_file() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("wanted");
        let stage = Stage::new();
        let Database {
            name,
            user,
            password,
            ..
        } = &database;
        let place = format!("127.0.0.1:{}", server.port());
        let other = "[client]\nhost=192.0.2.1\nport=1\nuser=nobody\npassword=wrong\n\
                     database=other\nsocket=/nowhere\n";
        let other = private(&stage, "other", other);
        let right = private(&stage, "right", password);
        let wrong = private(&stage, "wrong", "wrong");
        let run = || bare().arg("--defaults-file").arg(&other);
        let runs = [
            ("url over file", run().env("DLOCK_URL", database.url())),
            (
                "variable over url",
                run()
                    .env(
                        "DLOCK_URL",
                        format!("mysql://{user}:{password}@{place}/other"),
                    )
                    .env("DLOCK_DATABASE", name),
            ),
            (
                "flag over variable",
                run()
                    .env("DLOCK_URL", database.url())
                    .env("DLOCK_DATABASE", "other")
                    .env("DLOCK_PORT", "1")
                    .arg("--database")
                    .arg(name)
                    .arg("--port")
                    .arg(server.port().to_string()),
            ),
            (
                "url by flag over url by variable",
                run()
                    .env("DLOCK_URL", "mysql://nobody@192.0.2.1/other")
                    .arg("--url")
                    .arg(database.url()),
            ),
            (
                "password by variable over url",
                run()
                    .env("DLOCK_URL", format!("mysql://{user}:wrong@{place}/{name}"))
                    .env("DLOCK_PASSWORD", password),
            ),
            (
                "password by file over variable",
                run()
                    .env("DLOCK_URL", format!("mysql://{user}:wrong@{place}/{name}"))
                    .env("DLOCK_PASSWORD", "wrong")
                    .env("DLOCK_PASSWORD_FILE", wrong)
                    .arg("--password-file")
                    .arg(right),
            ),
        ];
        all_reach(&database, flavour, runs);
    }
}
