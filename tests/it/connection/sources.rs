//! Sources of the connection settings: flags, variables, URLs, and the files of the user and of the machine. The unit tests
//! of `config` test the precedence of the sources, and which files are ignored or invalid.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Flavour, shared};

use super::{all_reach, bare};
use crate::pid_one::{namespaces, unshare};

/// Writes `text` to the file `name`, which only its owner can read, and returns the path of the file.
pub(crate) fn private(stage: &Stage, name: &str, text: &str) -> PathBuf {
    stage.write(name, 0o600, text)
}

/// A password that must be encoded in a URL, and quoted in an option file.
const PASSWORD: &str = r#"p@/?#% "'\é[]"#;

#[test]
fn settings_come_from_urls_flags_variables_and_files() {
    let server = shared(Flavour::of_this_test());
    let mut database = server.database("settings");
    let user = &database.user;
    let quoted = PASSWORD.replace('\\', "\\\\").replace('\'', "\\'");
    database.run(format!("ALTER USER '{user}'@'%' IDENTIFIED BY '{quoted}'"));
    database.password = PASSWORD.bytes().fold(String::new(), |mut all, byte| {
        write!(all, "%{byte:02X}").expect("writing to a String cannot fail");
        all
    });
    let (name, user) = (&database.name, &database.user);
    let stage = Stage::new();
    let file = private(&stage, "url", &format!("{}\n", database.url()));
    let line = private(&stage, "line", &format!("{PASSWORD}\n"));
    let quoted = PASSWORD.replace('\\', "\\\\").replace('"', "\\\"");
    let options = private(&stage, "cnf", &format!("[client]\npassword=\"{quoted}\"\n"));
    let url = database.url();
    let port = database.port.to_string();
    let server_flags = ["--host", "127.0.0.1", "--port", &port];
    let account_flags = ["--user", user, "--database", name];
    let with_account = || {
        bare()
            .env("DLOCK_USER", user)
            .env("DLOCK_DATABASE", name)
            .env("DLOCK_PASSWORD", PASSWORD)
    };
    let with_server = |host: &str, port: &str| {
        let dlock = with_account().env("DLOCK_HOST", host);
        dlock.env("DLOCK_PORT", port)
    };
    let by_flags = |option: &str, file: &PathBuf| {
        let dlock = bare().args(server_flags).args(account_flags);
        dlock.arg(option).arg(file)
    };
    let by_url = |url: &str| bare().env("DLOCK_URL", url);
    let socket = server.socket();
    // No process listens on port 1, so a connection over TCP fails.
    let closed = by_url(&database.url_at("localhost:1"));
    let over_variables = with_server("192.0.2.1", "1");
    let runs = [
        ("url by flag", bare().arg("--url").arg(&url)),
        ("option file", by_flags("--defaults-file", &options)),
        ("url by variable", by_url(&url)),
        ("url by file", bare().arg("--url-file").arg(&file)),
        ("by variable of a file", bare().env("DLOCK_URL_FILE", &file)),
        ("before the subcommand", Dlock::new(["--url", &url, "exec"])),
        ("flags", by_flags("--password-file", &line)),
        ("over variables", over_variables.args(server_flags)),
        ("variables", with_server("127.0.0.1", &port)),
        ("socket", with_account().env("DLOCK_SOCKET", socket)),
        ("socket by flag", closed.arg("--socket").arg(socket)),
        ("socket by url", by_url(&database.socket_url())),
    ];
    all_reach(&database, runs);
}

#[test]
fn settings_come_from_option_files_and_the_files_of_the_user_and_the_machine() {
    let server = shared(Flavour::of_this_test());
    let database = server.database("options");
    let stage = Stage::new();
    let (user, password, port) = (&database.user, &database.password, database.port);
    let account = format!("user = {user} # who\npassword = '{password}'\n");
    let client =
        format!("[mysqld]\nport = 1\n[client]\nhost = 127.0.0.1\nport = {port}\n{account}");
    let included = private(&stage, "included.cnf", &client);
    let include = format!("!include {}\n", included.display());
    let dlock = format!("[dlock]\ndatabase = {}\n", database.name);
    let over = format!("{client}database = not_this\n{dlock}");
    let over = private(&stage, "over", &over);
    let including = private(&stage, "including", &format!("{include}{dlock}"));
    let socket = server.socket().display();
    let by_socket = format!("[client]\nsocket = {socket}\n{account}{dlock}");
    let by_socket = private(&stage, "socket", &by_socket);
    let run = |file: &PathBuf| bare().arg("--defaults-file").arg(file);
    // The file of the user, and the file of the machine.
    let server = format!("{dlock}host=127.0.0.1\nport={port}\n");
    let account = format!("user={user}\npassword={password}\n");
    user_folder(&stage, "home/.config", &format!("{server}{account}"));
    let account = user_folder(&stage, "account", &format!("[dlock]\n{account}"));
    let system = private(&stage, "system", &format!("{server}user=nobody\n"));
    let invalid = user_folder(&stage, "invalid", "rubbish\n");
    let home = bare().env("XDG_CONFIG_HOME", "");
    let both = with_system_file(&system).env("XDG_CONFIG_HOME", account);
    let url_over = bare().env("XDG_CONFIG_HOME", invalid);
    let runs = [
        ("dlock over client", run(&over)),
        ("included", run(&including)),
        ("socket", run(&by_socket)),
        ("by variable", bare().env("DLOCK_DEFAULTS_FILE", &over)),
        ("user in home", home.env("HOME", stage.path("home"))),
        ("account of the user, server of the system", both),
        ("url over user", url_over.env("DLOCK_URL", database.url())),
    ];
    all_reach(&database, runs);
}

/// Writes `text` to the user's file in the folder `name`, and returns the folder, which is a value of `XDG_CONFIG_HOME`.
fn user_folder(stage: &Stage, name: &str, text: &str) -> PathBuf {
    fs::create_dir_all(stage.path(name).join("dlock")).expect("the folder is writable");
    private(stage, &format!("{name}/dlock/dlock.cnf"), text);
    stage.path(name)
}

/// Returns `dlock exec` as [`bare`] does, in a mount namespace in which `/etc` contains only `file`, as `dlock.cnf`.
fn with_system_file(file: &Path) -> Dlock {
    let script = r#"file=$(cat "$0"; echo x); mount -t tmpfs none /etc &&
        umask 077 && printf %s "${file%x}" > /etc/dlock.cnf && exec "$@""#;
    let unshare = unshare(namespaces());
    Dlock::of(Path::new(unshare.get_program()), unshare.get_args())
        .args(["sh", "-c", script])
        .arg(file)
        .args([env!("CARGO_BIN_EXE_dlock"), "exec", "-q", "--nonblock"])
        .arg("--connect-timeout=30s")
}

#[test]
fn doctor_shows_where_each_setting_is_set() {
    let database = shared(Flavour::MariaDb).database("origins");
    let stage = Stage::new();
    let (port, user, name) = (database.port, &database.user, &database.name);
    let text = format!("[dlock]\nhost = 127.0.0.1\nport = 1\nuser = {user}\n");
    let folder = user_folder(&stage, "config", &text);
    let file = folder.join("dlock/dlock.cnf").display().to_string();
    let outcome = Dlock::new(["doctor", "--port", &port.to_string()])
        .env("XDG_CONFIG_HOME", &folder)
        .env("DLOCK_DATABASE", name)
        .env("DLOCK_PASSWORD", &database.password)
        .run();
    let wanted = format!(
        "set   host          127.0.0.1, from {file}:2\n\
         set   port          {port}, from --port\n\
         set   user          {user}, from {file}:4\n\
         set   password      from DLOCK_PASSWORD\n\
         set   database      {name}, from DLOCK_DATABASE\n\
         set   ssl-mode      disabled, the default\n\
         set   config-file   {file} is read\n\
         ok    processes"
    );
    assert!(outcome.stdout.starts_with(&wanted), "{outcome:#?}");
    assert!(!outcome.stdout.contains(&database.password), "{outcome:#?}");
}

#[test]
fn setup_prints_statements_for_the_database_in_the_config_file() {
    let stage = Stage::new();
    let print = |name: &str, text: &str| {
        let folder = user_folder(&stage, name, text);
        let dlock = Dlock::new(["setup", "--print"]);
        dlock.env("XDG_CONFIG_HOME", folder).run()
    };
    let outcome = print("config", "[dlock]\ndatabase = locks_of_app\n");
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("`locks_of_app`"), "{outcome:#?}");
    print("invalid", "[dlock]\ndatabase\n").expect(78, "", "dlock.cnf:2: database needs a value");
}
