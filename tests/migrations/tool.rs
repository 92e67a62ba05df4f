//! The migration tools: how a tool is found and started, and what its migrations have changed in the database.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use mysql::Conn;
use testkit::repository;
use testkit::servers::{Flavour, fetched};
use testkit::sql::Sql;

/// A migration tool with a project in `examples/migrations/` and larger migrations in `projects`.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The action, and the name of the folders.
    pub(crate) name: &'static str,
    /// The server of the tool in a short run.
    pub(crate) flavour: Flavour,
    /// The program that the script `fetch` finds or installs.
    program: &'static str,
    /// The table in which the tool records its migrations.
    record: &'static str,
    /// SELECT of the number of recorded migrations.
    recorded: &'static str,
}

/// The state of the schema and the record of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) recorded: u32,
    pub(crate) has_table: bool,
    pub(crate) rows: u32,
    pub(crate) has_currency: bool,
}

impl Tool {
    pub(crate) const ALL: [Self; 3] = [
        Self {
            name: "alembic",
            flavour: Flavour::MariaDb,
            program: "alembic",
            record: "alembic_version",
            // Alembic records only the number of the last migration.
            recorded: "SELECT COALESCE(MAX(CAST(version_num AS UNSIGNED)), 0) FROM alembic_version",
        },
        Self {
            name: "django",
            flavour: Flavour::MySql,
            program: "django-admin",
            record: "django_migrations",
            recorded: "SELECT COUNT(*) FROM django_migrations WHERE app = 'plans'",
        },
        Self {
            name: "knex",
            flavour: Flavour::MariaDb,
            program: "knex",
            record: "knex_migrations",
            recorded: "SELECT COUNT(*) FROM knex_migrations",
        },
    ];

    pub(crate) fn programs(&self) -> PathBuf {
        let mut folder = fetched(self.program);
        folder.pop();
        folder
    }

    /// Returns the recipe, with `begin` as the start of its command. The shell replaces itself with dlock.
    pub(crate) fn recipe(&self, begin: &str) -> String {
        let page = examples().join(self.name).join("README.md");
        let text = std::fs::read_to_string(&page).expect("the recipe exists");
        let recipe = text.lines().find(|line| line.starts_with("dlock exec "));
        let (dlock, command) = recipe
            .and_then(|recipe| recipe.split_once(" -- "))
            .expect("the page has a command");
        format!("exec {dlock} -- {begin} {command}")
    }

    /// Copies the project and the larger migrations to the folder `to`.
    pub(crate) fn install(&self, programs: &Path, to: &Path) {
        for from in [examples(), repository().join("tests/migrations/projects")] {
            let from = from.join(self.name).join(".");
            let copied = Command::new("cp").arg("-r").arg(from).arg(to).status();
            assert!(copied.expect("cp runs").success());
        }
        let packages = programs.join("../node_modules");
        let link = to.join("node_modules");
        if packages.exists() && !link.exists() {
            symlink(packages, link).expect("the folder is writable");
        }
    }

    /// Reads the state of the schema `name`, which is also the schema of the connection.
    pub(crate) fn progress(&self, admin: &mut Conn, name: &str) -> Progress {
        let mut count = |query: &str| -> u32 { admin.value(query) };
        let exists = |table: &str| {
            format!(
                "SELECT COUNT(*) FROM information_schema.tables \
                 WHERE table_schema = '{name}' AND table_name = '{table}'"
            )
        };
        let currency = format!(
            "SELECT COUNT(*) FROM information_schema.columns \
             WHERE table_schema = '{name}' AND table_name = 'plans' AND column_name = 'currency'"
        );
        let has_table = count(&exists("plans")) == 1;
        Progress {
            recorded: match count(&exists(self.record)) {
                0 => 0,
                _ => count(self.recorded),
            },
            has_table,
            rows: match has_table {
                true => count("SELECT COUNT(*) FROM plans"),
                false => 0,
            },
            has_currency: count(&currency) == 1,
        }
    }
}

impl Progress {
    /// Describes an effect of a migration that is committed but not recorded. None if there is no such effect.
    pub(crate) fn half_done(&self) -> Option<String> {
        let half_done = |is_done: bool, migration: u32| is_done && self.recorded < migration;
        let is_half_done = half_done(self.has_table, 1) || half_done(self.has_currency, 3);
        is_half_done.then(|| format!("{self:?}"))
    }

    /// Returns true if all migrations have their effect and are recorded.
    pub(crate) fn is_head(&self, rows: u32) -> bool {
        *self
            == Self {
                recorded: 3,
                has_table: true,
                rows,
                has_currency: true,
            }
    }
}

fn examples() -> PathBuf {
    repository().join("examples/migrations")
}
