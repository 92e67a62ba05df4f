//! The tables as the server has them: asked of `information_schema`, which every account may read as
//! far as it may use the tables.

use super::definition::{Key, Table, kind};
use super::grants::{Permission, Right};
use super::session::{Rows, Session, Unanswered};

/// What the server has.
#[derive(Debug, Default, Clone)]
pub(super) struct Present {
    /// Tables that the account can see, with their engine, empty for a view.
    pub(super) engines: Vec<(String, String)>,
    pub(super) columns: Vec<PresentColumn>,
    pub(super) keys: Vec<PresentKey>,
    /// Recorded versions of the schema; none where they cannot be read.
    pub(super) versions: Option<Vec<String>>,
}

/// One column that a table has.
#[derive(Debug, Clone)]
pub(super) struct PresentColumn {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) collation: Option<String>,
    pub(super) is_nullable: bool,
    pub(super) counts: bool,
    pub(super) has_default: bool,
}

/// One column of a key; those of one key follow each other in its order.
#[derive(Debug, Clone)]
pub(super) struct PresentKey {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) is_unique: bool,
    pub(super) column: String,
}

impl Present {
    /// Asks for all that `wanted` names.
    pub(super) fn ask(
        session: &mut Session,
        wanted: &[Table],
        rights: &[Right],
    ) -> Result<Self, Unanswered> {
        let names: Vec<String> = wanted
            .iter()
            .map(|table| format!("'{}'", table.name))
            .collect();
        let of = format!(
            "WHERE table_schema=DATABASE() AND table_name IN ({})",
            names.join(",")
        );
        let sets = session.ask(&format!(
            "SELECT table_name,COALESCE(engine,'') FROM information_schema.tables {of};\
             SELECT table_name,column_name,column_type,collation_name,is_nullable,extra,\
             column_default IS NOT NULL FROM information_schema.columns {of};\
             SELECT table_name,index_name,non_unique,column_name \
             FROM information_schema.statistics {of} \
             ORDER BY table_name,index_name,seq_in_index;"
        ))?;
        let mut present = Self::read(sets);
        let may_read = |right: &Right| {
            right.table == "dlock_schema"
                && right.verb == "SELECT"
                && right.permission == Permission::Granted
        };
        if rights.iter().any(may_read) {
            let sets = session.ask("SELECT version FROM dlock_schema LIMIT 2;")?;
            present.versions = Some(sets.into_iter().flatten().flatten().flatten().collect());
        }
        Ok(present)
    }

    fn read(sets: Vec<Rows>) -> Self {
        let mut sets = sets.into_iter().map(|rows| {
            let words = |row: Vec<Option<String>>| row.into_iter();
            rows.into_iter().map(words).collect::<Vec<_>>()
        });
        let mut set = || sets.next().unwrap_or_default();
        let text =
            |row: &mut std::vec::IntoIter<Option<String>>| row.next().flatten().unwrap_or_default();
        Self {
            engines: set()
                .into_iter()
                .map(|mut row| (text(&mut row), text(&mut row)))
                .collect(),
            columns: set()
                .into_iter()
                .map(|mut row| PresentColumn {
                    table: text(&mut row),
                    name: text(&mut row),
                    kind: kind(&text(&mut row)),
                    collation: row.next().flatten(),
                    is_nullable: text(&mut row) == "YES",
                    counts: text(&mut row).contains("auto_increment"),
                    has_default: text(&mut row) == "1",
                })
                .collect(),
            keys: set()
                .into_iter()
                .map(|mut row| PresentKey {
                    table: text(&mut row),
                    name: text(&mut row),
                    is_unique: text(&mut row) == "0",
                    column: text(&mut row),
                })
                .collect(),
            versions: None,
        }
    }

    /// The keys of `table`.
    pub(super) fn keys_of(&self, table: &str) -> Vec<Key> {
        let mut keys: Vec<(&str, Key)> = Vec::new();
        for part in self.keys.iter().filter(|part| part.table == table) {
            let column = part.column.clone();
            match keys.last_mut() {
                Some((name, key)) if *name == part.name => key.columns.push(column),
                _ => {
                    let is_unique = part.is_unique;
                    let columns = vec![column];
                    keys.push((&part.name, Key { is_unique, columns }));
                }
            }
        }
        keys.into_iter().map(|(_, key)| key).collect()
    }
}
