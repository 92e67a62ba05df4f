//! The recipes for migration tools: the real tools run the projects in `examples/migrations/`, with the commands that
//! the documents give. Tools that cannot be installed here have a command only, which is parsed.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use clap::Parser;
use dlock::cli::{Cli, Command};
use mysql::prelude::Queryable;
use testkit::cli_runner::Dlock;

use super::{Host, example, installed, path};
use crate::pages::words;

/// Tools whose recipe is a command only.
const DOCUMENTED: [&str; 6] = [
    "Flyway",
    "golang-migrate",
    "goose",
    "Laravel",
    "Liquibase",
    "Prisma",
];

/// A migration tool that the tests can run.
struct Tool {
    /// The action, and the name of the folder.
    name: &'static str,
    /// The program that the script `fetch` finds or installs.
    program: &'static str,
    /// SELECT of the migrations that the tool has recorded, in order.
    recorded: &'static str,
    /// The last of the three migrations, as the tool records it.
    head: &'static str,
}

impl Tool {
    /// Returns the folder that contains the program.
    #[track_caller]
    fn programs(&self) -> PathBuf {
        let fetch = path("../tests/servers/fetch");
        let output = Program::new(fetch).args(["--path", self.program]).output();
        let output = output.expect("the script can be executed");
        assert!(
            output.status.success(),
            "{} is missing: {}",
            self.name,
            String::from_utf8_lossy(&output.stderr)
        );
        let program = String::from_utf8(output.stdout).expect("the path is UTF-8");
        let mut folder = PathBuf::from(program.trim_end());
        folder.pop();
        folder
    }

    /// Returns the shell command of the recipe that starts with `words`.
    #[track_caller]
    fn command(&self, words: &str) -> String {
        let text = example(&format!("migrations/{}/README.md", self.name));
        let command = text.lines().find(|line| line.starts_with(words));
        let command = command.unwrap_or_else(|| panic!("{} has no {words}", self.name));
        command.to_owned()
    }

    /// Copies the project into the folder of `host`, with the packages that npm has installed beside `programs`.
    fn install(&self, host: &Host, programs: &Path) {
        let project = path("migrations").join(self.name).join(".");
        let packages = programs.join("../node_modules");
        let to = host.stage.path("");
        let copied = Program::new("cp").arg("-r").arg(project).arg(&to).status();
        assert!(copied.expect("cp runs").success());
        let link = to.join("node_modules");
        if packages.exists() && !link.exists() {
            symlink(packages, link).expect("the folder is writable");
        }
    }

    /// Returns a replica of release v1 that runs `command` with the tool in the folder `programs`.
    fn replica(host: &Host, programs: &Path, command: &str) -> Dlock {
        let database = &host.database;
        let [dlock, tool] = [installed(), programs].map(Path::display);
        let variables = [
            ("PATH", format!("{dlock}:{tool}:/usr/bin:/bin")),
            ("HOME", host.stage.path("").display().to_string()),
            ("NPM_CONFIG_UPDATE_NOTIFIER", "false".to_owned()),
            ("DLOCK_URL", database.url()),
            ("DB_HOST", "127.0.0.1".to_owned()),
            ("DB_PORT", database.port.to_string()),
            ("DB_USER", database.user.clone()),
            ("DB_PASSWORD", database.password.clone()),
            ("DB_NAME", database.name.clone()),
            ("TAG", "v1".to_owned()),
        ];
        let variables = variables
            .each_ref()
            .map(|(name, value)| (*name, value.as_str()));
        host.starts(&variables, ["sh", "-c", command])
    }

    /// Starts three replicas at once, and asserts that one of them has migrated the whole schema.
    fn migrates_once(&self) {
        let programs = self.programs();
        let exec = self.command("dlock exec ");
        let wait = self.command("dlock wait ");
        Host::everywhere(|host| {
            self.install(host, &programs);
            let replicas = [0; 3].map(|_| Self::replica(host, &programs, &exec).start());
            let outcomes = replicas.map(|replica| replica.wait());
            for outcome in &outcomes {
                assert_eq!(outcome.status, Some(0), "{outcomes:#?}");
            }
            let history = Dlock::on(&host.database, ["history", self.name]).run();
            assert_eq!(history.stdout.matches("exit 0").count(), 1, "{history:#?}");

            let mut admin = host.database.admin_conn();
            let recorded: Vec<String> = admin.query(self.recorded).expect("recorded migrations");
            assert_eq!(recorded.len(), 3, "{recorded:?}");
            assert_eq!(recorded[2], self.head);
            let rows = "SELECT name, price_cents, currency FROM plans ORDER BY id";
            let rows: Vec<(String, u32, String)> = admin.query(rows).expect("the table exists");
            let plan = |name: &str, price| (name.to_owned(), price, "EUR".to_owned());
            assert_eq!(
                rows,
                [plan("free", 0), plan("team", 900), plan("company", 4900)]
            );

            Self::replica(host, &programs, &wait)
                .run()
                .expect(0, "", "");
        });
    }
}

#[test]
fn alembic_migrates_once() {
    Tool {
        name: "alembic",
        program: "alembic",
        // Alembic records the last migration only.
        recorded: "SELECT '0001' UNION ALL SELECT '0002' UNION ALL SELECT version_num FROM alembic_version",
        head: "0003",
    }
    .migrates_once();
}

#[test]
fn django_migrates_once() {
    Tool {
        name: "django",
        program: "django-admin",
        recorded: "SELECT name FROM django_migrations ORDER BY id",
        head: "0003_add_currency",
    }
    .migrates_once();
}

#[test]
fn knex_migrates_once() {
    Tool {
        name: "knex",
        program: "knex",
        recorded: "SELECT name FROM knex_migrations ORDER BY id",
        head: "0003_add_currency.js",
    }
    .migrates_once();
}

#[test]
fn typeorm_migrates_once() {
    Tool {
        name: "typeorm",
        program: "typeorm",
        recorded: "SELECT name FROM migrations ORDER BY id",
        head: "AddCurrency1700000000003",
    }
    .migrates_once();
}

#[test]
fn activerecord_migrates_once() {
    Tool {
        name: "activerecord",
        program: "rake",
        recorded: "SELECT version FROM schema_migrations ORDER BY version",
        head: "20260101000003",
    }
    .migrates_once();
}

/// Returns the commands in the table of all tools, by the tool's name.
fn table() -> BTreeMap<String, String> {
    let text = example("migrations/README.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| {
        let (name, rest) = row.split_once(" | `")?;
        let (command, _) = rest.split_once("` |")?;
        let name = name.trim_start_matches('[');
        let name = name.split(']').next().unwrap_or(name);
        Some((name.to_owned(), command.to_owned()))
    });
    cells.collect()
}

#[test]
fn every_command_in_the_table_is_one_that_dlock_accepts() {
    let table = table();
    let mut documented = 0;
    for (tool, command) in &table {
        let cli = Cli::try_parse_from(words(command)).unwrap_or_else(|e| panic!("{tool}: {e}"));
        let Command::Exec(exec) = cli.command else {
            panic!("{tool} does not use dlock exec: {command}");
        };
        assert!(exec.once.once().is_some(), "{tool} runs more than once");
        assert!(!exec.command.is_empty(), "{tool} runs nothing");
        documented += usize::from(DOCUMENTED.contains(&tool.as_str()));
    }
    assert_eq!(documented, DOCUMENTED.len(), "{table:#?}");
}

#[test]
fn the_table_has_the_command_of_each_project() {
    let table = table();
    for (tool, command) in &table {
        if !DOCUMENTED.contains(&tool.as_str()) {
            let text = example(&format!("migrations/{}/README.md", tool.to_lowercase()));
            assert!(
                text.lines().any(|line| line == command),
                "{tool}: {command}"
            );
        }
    }
    assert_eq!(table.len(), DOCUMENTED.len() + 5, "{table:#?}");
}
