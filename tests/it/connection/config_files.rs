//! The configuration files of the user and of the machine: what they set, when they are ignored, and how `dlock doctor`
//! shows them.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::{Flavour, shared};

use super::sources::private;
use super::{all_reach, bare};
use crate::pid_one::{namespaces, unshare};

/// Writes `text` to the user's file in the folder `name`, and returns the folder, which is a value of `XDG_CONFIG_HOME`.
fn user_folder(stage: &Stage, name: &str, text: &str) -> std::path::PathBuf {
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
        .args([
            env!("CARGO_BIN_EXE_dlock"),
            "exec",
            "--nonblock",
            "--connect-timeout",
            "0",
        ])
}

#[test]
fn settings_come_from_the_file_of_the_user_and_the_file_of_the_machine() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = server.database("config");
        let stage = Stage::new();
        let (name, user, password) = (&database.name, &database.user, &database.password);
        let server_part = format!("host = 127.0.0.1\nport = {}\n", server.port());
        let account = format!("user = {user}\npassword = {password}\n");
        let complete = format!("[dlock]\n{server_part}{account}database = {name}\n");
        let complete_folder = user_folder(&stage, "complete", &complete);
        let account_folder = user_folder(&stage, "account", &format!("[dlock]\n{account}"));
        let other_database = complete.replace(&format!("database = {name}"), "database = other");
        let other_folder = user_folder(&stage, "other", &other_database);
        let invalid_folder = user_folder(&stage, "invalid", "rubbish\n");
        user_folder(&stage, "home/.config", &complete);
        let system = private(&stage, "system", &complete);
        let without_account = format!("[dlock]\n{server_part}database = {name}\nuser = nobody\n");
        let without_account = private(&stage, "without", &without_account);
        let unusable = private(&stage, "unusable", "rubbish\n");
        let with_user_file = |folder: &Path| bare().env("XDG_CONFIG_HOME", folder);
        let runs = [
            ("user", with_user_file(&complete_folder)),
            (
                "user in home",
                bare()
                    .env("XDG_CONFIG_HOME", "")
                    .env("HOME", stage.path("home")),
            ),
            ("system", with_system_file(&system)),
            (
                "account of the user, server of the system",
                with_system_file(&without_account).env("XDG_CONFIG_HOME", &account_folder),
            ),
            (
                "user over system",
                with_system_file(&unusable).env("XDG_CONFIG_HOME", &complete_folder),
            ),
            (
                "variable over user",
                with_user_file(&other_folder).env("DLOCK_DATABASE", name),
            ),
            (
                "url over user",
                with_user_file(&invalid_folder).env("DLOCK_URL", database.url()),
            ),
        ];
        all_reach(&database, flavour, runs);
    }
}

#[test]
fn password_of_a_config_file_is_not_sent_to_another_server() {
    let stage = Stage::new();
    let text = "[dlock]\nhost=db.example\nuser=u\npassword=p\ndatabase=d\n";
    let folder = user_folder(&stage, "config", text);
    let outcome = bare()
        .env("XDG_CONFIG_HOME", &folder)
        .args(["-a", "x", "--host", "127.0.0.1", "--", "true"])
        .run();
    let ignored = format!(
        "{} is ignored, because --host sets the server",
        folder.join("dlock/dlock.cnf").display()
    );
    outcome.expect(64, "", "no user (set --user or DLOCK_USER)");
    outcome.expect(64, "", &ignored);
}

#[test]
fn invalid_config_file_exits_78_with_its_line() {
    let stage = Stage::new();
    let folder = user_folder(&stage, "config", "[dlock]\nhost=db\nttl=30s\n");
    let outcome = Dlock::new(["status"]).env("XDG_CONFIG_HOME", &folder).run();
    let why = format!(
        "{}:3: unknown option in [dlock]; the known options are host, port, socket, ",
        folder.join("dlock/dlock.cnf").display()
    );
    outcome.expect(78, "", &why);
}

#[test]
fn doctor_shows_where_each_setting_is_set() {
    let flavour = Flavour::MariaDb;
    let server = shared(flavour);
    let database = server.database("origins");
    let stage = Stage::new();
    let text = format!(
        "[dlock]\nhost = 127.0.0.1\nport = 1\nuser = {}\n",
        database.user
    );
    let folder = user_folder(&stage, "config", &text);
    let file = folder.join("dlock/dlock.cnf").display().to_string();
    let doctor = |form: &[&str]| {
        let port = server.port().to_string();
        Dlock::new(["doctor", "--port", &port])
            .args(form)
            .env("XDG_CONFIG_HOME", &folder)
            .env("DLOCK_DATABASE", &database.name)
            .env("DLOCK_PASSWORD", &database.password)
            .run()
    };
    let outcome = doctor(&[]);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let wanted = [
        format!("host          127.0.0.1, from {file}:2"),
        format!("port          {}, from --port", server.port()),
        format!("user          {}, from {file}:4", database.user),
        "password      from DLOCK_PASSWORD".to_owned(),
        format!("database      {}, from DLOCK_DATABASE", database.name),
        "ssl-mode      disabled, the default".to_owned(),
        format!("config-file   {file} is read"),
    ];
    let wanted: Vec<String> = wanted.iter().map(|line| format!("set   {line}")).collect();
    assert_eq!(lines[..wanted.len()], wanted, "{outcome:#?}");
    assert!(
        lines[wanted.len()].starts_with("ok    processes"),
        "{outcome:#?}"
    );
    assert!(!outcome.stdout.contains(&database.password), "{outcome:#?}");

    let outcome = doctor(&["--json"]);
    let document: Value = serde_json::from_str(&outcome.stdout).expect("the output is JSON");
    let password = json!({"name": "password", "value": null, "origin": "DLOCK_PASSWORD"});
    assert_eq!(document["settings"][3], password);
    let mode = json!({"name": "ssl-mode", "value": "disabled", "origin": null});
    assert_eq!(document["settings"][5], mode);
    let read = json!([{"path": file, "ignored_because_of": null}]);
    assert_eq!(document["config_files"], read);
    assert!(!outcome.stdout.contains(&database.password), "{outcome:#?}");
}

#[test]
fn setup_prints_statements_for_the_database_in_the_config_file() {
    let stage = Stage::new();
    let print = |folder: &Path| {
        let dlock = Dlock::new(["setup", "--print"]).env("XDG_CONFIG_HOME", folder);
        dlock.run()
    };
    let folder = user_folder(&stage, "config", "[dlock]\ndatabase = locks_of_app\n");
    let outcome = print(&folder);
    assert_eq!(outcome.status, Some(0), "{outcome:#?}");
    assert!(outcome.stdout.contains("`locks_of_app`"), "{outcome:#?}");
    let folder = user_folder(&stage, "invalid", "[dlock]\ndatabase\n");
    print(&folder).expect(78, "", "dlock.cnf:2: database needs a value");
}
