//! The tables that exist on the server, read from `information_schema`, which shows an account only the tables on which
//! the account has a privilege.

use super::super::schema::TablesVersion;
use super::expected_schema::{IndexDefinition, TableDefinition, kind};
use super::session::{QueryError, Rows, Session};

/// The tables, columns and keys that exist on the server and that the account can see.
#[derive(Debug, Default, Clone)]
pub(super) struct Present {
    /// Tables that the account can see, each with its engine. The engine is empty for a view.
    pub(super) engines: Vec<(String, String)>,
    pub(super) columns: Vec<PresentColumn>,
    pub(super) keys: Vec<PresentKey>,
    /// The first two rows of `dlock_schema`. None if the server refused to return them.
    pub(super) versions: Option<Vec<TablesVersion>>,
}

/// One column of an existing table.
#[derive(Debug, Clone)]
pub(super) struct PresentColumn {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) collation: Option<String>,
    pub(super) is_nullable: bool,
    pub(super) is_auto_increment: bool,
    pub(super) has_default: bool,
}

/// One column of a key. The columns of one key are adjacent and in the order of the key.
#[derive(Debug, Clone)]
pub(super) struct PresentKey {
    pub(super) table: String,
    pub(super) name: String,
    pub(super) is_unique: bool,
    pub(super) column: String,
}

impl Present {
    /// Queries the server for the tables in `wanted`.
    pub(super) fn query(
        session: &mut Session,
        wanted: &[TableDefinition],
        versions: Option<Vec<TablesVersion>>,
    ) -> Result<Self, QueryError> {
        let names: Vec<String> = wanted
            .iter()
            .map(|table| format!("'{}'", table.name))
            .collect();
        let of = format!(
            "WHERE table_schema=DATABASE() AND table_name IN ({})",
            names.join(",")
        );
        let sets = session.query(&format!(
            "SELECT table_name,COALESCE(engine,'') FROM information_schema.tables {of};\
             SELECT table_name,column_name,column_type,collation_name,is_nullable,extra,\
             column_default IS NOT NULL FROM information_schema.columns {of};\
             SELECT table_name,index_name,non_unique,column_name \
             FROM information_schema.statistics {of} \
             ORDER BY table_name,index_name,seq_in_index;"
        ))?;
        let mut present = Self::read(sets);
        present.versions = versions;
        Ok(present)
    }

    /// Queries the server for the rows of `dlock_schema`, at most two. Returns None if the server refuses the query,
    /// for example because the table or a column does not exist, or because the account may not read the table.
    pub(super) fn query_versions(
        session: &mut Session,
    ) -> Result<Option<Vec<TablesVersion>>, QueryError> {
        let rows = "SELECT version,min_version FROM dlock_schema LIMIT 2;";
        let sets = match session.query(rows) {
            Ok(sets) => sets,
            Err(QueryError::Refused(_)) => return Ok(None),
            Err(lost) => return Err(lost),
        };
        let number = |cell: &Option<String>| cell.as_deref()?.parse().ok();
        let version = |row: Vec<Option<String>>| {
            Some(TablesVersion {
                version: number(row.first()?)?,
                min_version: number(row.get(1)?)?,
            })
        };
        let rows = sets.into_iter().flatten();
        Ok(Some(rows.filter_map(version).collect()))
    }

    fn read(sets: Vec<Rows>) -> Self {
        let mut sets = sets.into_iter().map(|rows| {
            let cells = |row: Vec<Option<String>>| row.into_iter();
            rows.into_iter().map(cells).collect::<Vec<_>>()
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
                    is_auto_increment: text(&mut row).contains("auto_increment"),
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

    /// Returns the keys of `table`.
    pub(super) fn keys_of(&self, table: &str) -> Vec<IndexDefinition> {
        let mut keys: Vec<(&str, IndexDefinition)> = Vec::new();
        for part in self.keys.iter().filter(|part| part.table == table) {
            let column = part.column.clone();
            match keys.last_mut() {
                Some((name, key)) if *name == part.name => key.columns.push(column),
                _ => {
                    let is_unique = part.is_unique;
                    let columns = vec![column];
                    keys.push((&part.name, IndexDefinition { is_unique, columns }));
                }
            }
        }
        keys.into_iter().map(|(_, key)| key).collect()
    }
}
