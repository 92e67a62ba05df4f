//! The tables as `schema.sql` defines them, read from that file. The checks `grants` and `tables` use these
//! definitions.

use super::super::schema;

/// Definition of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableDefinition {
    pub(super) name: &'static str,
    pub(super) columns: Vec<&'static str>,
    /// The engine, the columns and the keys, each as a text that is equal on all servers: `column NAME TYPE [not] null`
    /// in lower case without the default, or the columns of a key without its name. The primary key is a unique key.
    pub(super) parts: Vec<String>,
}

/// Returns all tables in the order of the file, without the columns that upgrades after the schema version `version`
/// add.
pub(super) fn tables_of(version: u64) -> Vec<TableDefinition> {
    let ddl = schema::current().ddl;
    let blocks = ddl.split("CREATE TABLE IF NOT EXISTS ").skip(1);
    blocks.filter_map(|block| table(block, version)).collect()
}

/// Parses `NAME (`, one line per column or key, and `)`. The line of a column is
/// `NAME TYPE [NOT NULL|NULL] [DEFAULT …] [AUTO_INCREMENT] [PRIMARY KEY|UNIQUE]`.
fn table(block: &'static str, version: u64) -> Option<TableDefinition> {
    let (name, body) = block.split_once(" (\n")?;
    let mut columns = Vec::new();
    let mut parts = vec!["engine innodb".to_owned()];
    for line in body.lines().take_while(|line| !line.starts_with(')')) {
        let line = line.split("--").next().unwrap_or_default();
        let line = line.trim().trim_end_matches(',');
        let Some((first, definition)) = line.split_once(' ') else {
            continue;
        };
        let is_same = |later: &schema::NewColumn| (later.table, later.name) == (name, first);
        if let Some((_, key)) = line.split_once("KEY").filter(|_| line.ends_with(')')) {
            let (_, key) = key.split_once('(')?;
            let unique = if first == "PRIMARY" { "unique " } else { "" };
            parts.push(format!("{unique}key ({}", key.replace(' ', "")));
        } else if !schema::current().columns_after(version).any(is_same) {
            if definition.contains("KEY") || definition.contains("UNIQUE") {
                parts.push(format!("unique key ({first})"));
            }
            let words: Vec<&str> = definition.split_whitespace().collect();
            let definition = words.join(" ").replace(" PRIMARY KEY", "");
            let definition = definition.replace(" UNIQUE", "").to_lowercase();
            let definition = definition.split(" default").next().unwrap_or_default();
            parts.push(format!("column {first} {definition}"));
            columns.push(first);
        }
    }
    Some(TableDefinition {
        name,
        columns,
        parts,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::schema;
    use super::tables_of;

    #[test]
    fn every_table_and_column_of_the_file_is_parsed() {
        let tables = tables_of(schema::VERSION);
        let ddl = schema::current().ddl;
        assert_eq!(tables.len(), ddl.matches("CREATE TABLE").count());
        // Each column has NULL or NOT NULL in its definition.
        let columns: usize = tables.iter().map(|table| table.columns.len()).sum();
        let defined = ddl.lines().filter(|line| {
            let line = line.split("--").next().unwrap_or_default();
            line.starts_with("  ") && line.contains(" NULL")
        });
        assert_eq!(columns, defined.count());
        for table in &tables {
            let mut parts = table.parts.iter();
            assert!(
                parts.any(|part| part.starts_with("unique key (")),
                "{table:?}"
            );
        }
        for (name, _) in schema::rights() {
            assert!(tables.iter().any(|table| table.name == name), "{name}");
        }
        let first = tables_of(1);
        let first: usize = first.iter().map(|table| table.columns.len()).sum();
        assert_eq!(first + schema::current().columns_after(1).count(), columns);
    }

    #[test]
    fn parts_are_described_without_defaults_and_names_of_keys() {
        let tables = tables_of(schema::VERSION);
        let waiter = tables.iter().find(|table| table.name == "dlock_waiter");
        let parts = &waiter.expect("the table exists").parts;
        for wanted in [
            "engine innodb",
            "column position bigint unsigned not null auto_increment",
            "unique key (position)",
            "column owner_id varbinary(16) not null",
            "unique key (owner_id)",
            "column pod varbinary(255) not null",
            "column inside_action varbinary(255) null",
            "key (action,position)",
        ] {
            assert!(
                parts.iter().any(|part| part == wanted),
                "{wanted}: {parts:?}"
            );
        }
    }
}
