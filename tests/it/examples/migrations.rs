//! The recipes for migration tools: the real tools run the projects in `examples/migrations/`, with the commands that
//! the documents give. Tools that cannot be installed here have a command only, which is parsed.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command as Program;

use clap::Parser;
use dlock::cli::{Cli, Command};
use testkit::cli_runner::Dlock;
use testkit::on_each_flavour;
use testkit::servers::{Flavour, fetched};

use super::{Host, example, installed, path};
use crate::pages::words;

/// Tools whose recipe is a command only.
const DOCUMENTED: &str = "Flyway golang-migrate goose Laravel Liquibase Prisma";

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
    fn programs(&self) -> PathBuf {
        let mut folder = fetched(self.program);
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
        host.starts([
            format!("PATH={dlock}:{tool}:/usr/bin:/bin"),
            format!("HOME={}", host.stage.path("").display()),
            "NPM_CONFIG_UPDATE_NOTIFIER=false".to_owned(),
            host.url(),
            "DB_HOST=127.0.0.1".to_owned(),
            format!("DB_PORT={}", database.port),
            format!("DB_USER={}", database.user),
            format!("DB_PASSWORD={}", database.password),
            format!("DB_NAME={}", database.name),
            "TAG=v1".to_owned(),
            "sh".to_owned(),
            "-c".to_owned(),
            command.to_owned(),
        ])
    }

    fn migrates_once(&self, flavour: Flavour) {
        let programs = self.programs();
        let host = &Host::on(flavour);
        self.install(host, &programs);
        let run = |words: &str| Self::replica(host, &programs, &self.command(words));
        Host::twice(|| run("dlock exec "));
        let history = host.dlock(&["history", self.name]);
        assert_eq!(history.stdout.matches("exit 0").count(), 1, "{history:#?}");

        let recorded: Vec<String> = host.database.rows(self.recorded);
        assert_eq!(recorded.len(), 3, "{recorded:?}");
        assert_eq!(recorded[2], self.head);
        let rows = "SELECT CONCAT_WS(' ',name,price_cents,currency) FROM plans ORDER BY id";
        let rows: Vec<String> = host.database.rows(rows);
        assert_eq!(rows, ["free 0 EUR", "team 900 EUR", "company 4900 EUR"]);
        run("dlock wait ").expect(0, "", "");
    }
}

const TOOLS: [Tool; 5] = [
    Tool {
        name: "alembic",
        program: "alembic",
        // Alembic records the last migration only.
        recorded: "SELECT '0001' UNION ALL SELECT '0002' UNION ALL SELECT version_num FROM alembic_version",
        head: "0003",
    },
    Tool {
        name: "django",
        program: "django-admin",
        recorded: "SELECT name FROM django_migrations ORDER BY id",
        head: "0003_add_currency",
    },
    Tool {
        name: "knex",
        program: "knex",
        recorded: "SELECT name FROM knex_migrations ORDER BY id",
        head: "0003_add_currency.js",
    },
    Tool {
        name: "typeorm",
        program: "typeorm",
        recorded: "SELECT name FROM migrations ORDER BY id",
        head: "AddCurrency1700000000003",
    },
    Tool {
        name: "activerecord",
        program: "rake",
        recorded: "SELECT version FROM schema_migrations ORDER BY version",
        head: "20260101000003",
    },
];

on_each_flavour!(one_replica_migrates_with_each_tool);
fn one_replica_migrates_with_each_tool(flavour: Flavour) {
    for tool in TOOLS {
        println!("{}:", tool.name);
        tool.migrates_once(flavour);
    }
}

/// The documented table has the command of each project, and a command that dlock accepts for each other tool.
#[test]
fn each_command_in_the_table_is_tested_in_a_project_or_accepted_by_dlock() {
    let text = example("migrations/README.md");
    let mut documented = Vec::new();
    let mut tools = 0;
    for row in text.lines().filter_map(|line| line.strip_prefix("| ")) {
        let Some((name, rest)) = row.split_once(" | `") else {
            continue;
        };
        let (command, _) = rest.split_once("` |").expect("the end of the command");
        let cli = Cli::try_parse_from(words(command)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Command::Exec(exec) = cli.command else {
            panic!("{name} does not use dlock exec: {command}");
        };
        assert!(exec.once.once().is_some(), "{name} runs more than once");
        assert!(!exec.command.is_empty(), "{name} runs nothing");
        let Some((project, _)) = name.strip_prefix('[').and_then(|name| name.split_once(']'))
        else {
            documented.push(name);
            continue;
        };
        let project = project.to_lowercase();
        let tool = TOOLS.iter().find(|tool| tool.name == project);
        let tool = tool.unwrap_or_else(|| panic!("{project} has no test"));
        assert_eq!(tool.command("dlock exec "), command);
        tools += 1;
    }
    assert_eq!(documented.join(" "), DOCUMENTED);
    assert_eq!(tools, TOOLS.len());
}
