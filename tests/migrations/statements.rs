//! The SQL of the larger migrations, and the measurement that makes an ALTER as slow as required.
//!
//! The ALTER copies all rows. For each row, it computes a digest of a long text, so the length of the text determines
//! the time of the ALTER, and the rows can be inserted much faster than they are copied.

use std::time::{Duration, Instant};

use testkit::servers::Server;
use testkit::sql::Sql;

/// Number of rows, and number of repetitions of the name in each digest, of the measured ALTER.
const SAMPLE_ROWS: u32 = 4_000;
const SAMPLE_REPEATS: u32 = 1_000;

/// Creates the table as the first migration of each project creates it.
pub(crate) const CREATE_PLANS: &str = "CREATE TABLE plans (id INT AUTO_INCREMENT PRIMARY KEY,\
    name VARCHAR(40) NOT NULL UNIQUE, price_cents INT NOT NULL)";

pub(crate) struct Cost {
    /// Time for one row and one repetition of the name.
    repeat: Duration,
}

impl Cost {
    pub(crate) fn measure(server: &Server) -> Self {
        let mut admin = server.database("cost").admin_conn();
        admin.run(CREATE_PLANS);
        admin.run(insert_plans(SAMPLE_ROWS));
        let started = Instant::now();
        let alter = add_currency(SAMPLE_REPEATS);
        admin.run(alter);
        Self {
            repeat: started.elapsed() / SAMPLE_ROWS / SAMPLE_REPEATS,
        }
    }

    /// Returns the ALTER that takes about `time` for a table with this number of rows. On a busy machine, the ALTER
    /// takes longer.
    pub(crate) fn add_currency(&self, rows: u32, time: Duration) -> String {
        let repeats = time.as_nanos() / self.repeat.as_nanos().max(1) / u128::from(rows);
        add_currency(u32::try_from(repeats).unwrap_or(u32::MAX).max(1))
    }
}

/// Returns the INSERT of `rows` rows, at most a million. It can be repeated: after a DDL statement, the session of a tool
/// is outside of a transaction, so a killed tool can leave the rows without a record of the migration.
pub(crate) fn insert_plans(rows: u32) -> String {
    let digits = (0..10).map(|digit| format!("SELECT {digit} AS d"));
    let digits: Vec<String> = digits.collect();
    format!(
        "INSERT IGNORE INTO plans (name, price_cents) WITH digits AS ({}) \
         SELECT CONCAT('plan ', a.d, b.d, c.d, d.d, e.d, f.d), 100 \
         FROM digits a, digits b, digits c, digits d, digits e, digits f LIMIT {rows}",
        digits.join(" UNION ALL ")
    )
}

/// Returns the ALTER with digests of `repeats` repetitions of the name.
pub(crate) fn add_currency(repeats: u32) -> String {
    format!(
        "ALTER TABLE plans ADD COLUMN currency VARCHAR(3) NOT NULL DEFAULT 'EUR', \
         ADD COLUMN digest CHAR(64) AS (SHA2(REPEAT(name, {repeats}), 256)) STORED, ALGORITHM=COPY"
    )
}

pub(crate) fn is_add_currency(statement: &str) -> bool {
    statement.starts_with("ALTER TABLE plans ADD COLUMN currency")
}
