//! The tables as `schema.sql` defines them, read from that file. The checks `grants` and `tables` use these
//! definitions.

use super::super::schema;

/// Definition of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TableDefinition {
    pub(super) name: &'static str,
    pub(super) columns: Vec<ColumnDefinition>,
    pub(super) keys: Vec<IndexDefinition>,
}

/// Definition of one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnDefinition {
    pub(super) name: &'static str,
    /// The definition after the name of the column, without the words that make the column a key.
    pub(super) definition: String,
    /// The type, as `kind` returns it.
    pub(super) kind: String,
    pub(super) is_nullable: bool,
    /// True if the column has the attribute `AUTO_INCREMENT`.
    pub(super) is_auto_increment: bool,
}

/// Definition of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexDefinition {
    /// The primary key counts as unique.
    pub(super) is_unique: bool,
    pub(super) columns: Vec<String>,
}

/// Returns all tables in the order of the file.
pub(super) fn tables() -> Vec<TableDefinition> {
    let ddl = schema::current().ddl;
    let blocks = ddl.split("CREATE TABLE IF NOT EXISTS ").skip(1);
    blocks.filter_map(table).collect()
}

/// Returns the tables of the schema version `version`, without the columns that later upgrades add.
pub(super) fn tables_of(version: u64) -> Vec<TableDefinition> {
    let mut tables = tables();
    for later in schema::current().columns_after(version) {
        for table in tables.iter_mut().filter(|table| table.name == later.table) {
            table.columns.retain(|column| column.name != later.name);
        }
    }
    tables
}

/// Parses `NAME (`, one line per column or key, and `)`.
fn table(block: &'static str) -> Option<TableDefinition> {
    let (head, body) = block.split_once(" (\n")?;
    let mut table = TableDefinition {
        name: head.trim(),
        columns: Vec::new(),
        keys: Vec::new(),
    };
    for line in body.lines().take_while(|line| !line.starts_with(')')) {
        let line = line.split("--").next().unwrap_or_default();
        let line = line.trim().trim_end_matches(',').trim();
        if line.is_empty() {
            continue;
        }
        match line.split_once('(') {
            Some((words, columns)) if words.split_whitespace().any(|word| word == "KEY") => {
                table.keys.push(IndexDefinition {
                    is_unique: !words.starts_with("KEY"),
                    columns: columns
                        .trim_end_matches(')')
                        .split(',')
                        .map(|name| name.trim().to_owned())
                        .collect(),
                });
            }
            _ => column(line, &mut table)?,
        }
    }
    Some(table)
}

/// Parses `NAME TYPE [NOT NULL|NULL] [DEFAULT …] [AUTO_INCREMENT] [PRIMARY KEY|UNIQUE]`.
fn column(line: &'static str, table: &mut TableDefinition) -> Option<()> {
    let (name, rest) = line.split_once(' ')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let of_type = |word: &&&str| !["NOT", "NULL", "DEFAULT", "AUTO_INCREMENT"].contains(*word);
    let type_words: Vec<&str> = words.iter().take_while(of_type).copied().collect();
    let rest = words.join(" ");
    let definition = rest.replace(" PRIMARY KEY", "").replace(" UNIQUE", "");
    if definition != rest {
        table.keys.push(IndexDefinition {
            is_unique: true,
            columns: vec![name.to_owned()],
        });
    }
    table.columns.push(ColumnDefinition {
        name,
        kind: kind(&type_words.join(" ")),
        is_nullable: !definition.contains("NOT NULL"),
        is_auto_increment: definition.contains("AUTO_INCREMENT"),
        definition,
    });
    Some(())
}

/// Returns a type in lower case, without the display width that MariaDB and old versions of MySQL return for integers.
pub(super) fn kind(text: &str) -> String {
    let text = text.to_lowercase();
    match text.split_once('(') {
        Some((name, rest)) if name.ends_with("int") => {
            let (_, rest) = rest.split_once(')').unwrap_or_default();
            format!("{name}{rest}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::schema;
    use super::{IndexDefinition, kind, tables};

    #[test]
    fn every_table_and_column_of_the_file_is_parsed() {
        let tables = tables();
        assert_eq!(
            tables.len(),
            schema::current().ddl.matches("CREATE TABLE").count()
        );
        // Each column has NULL or NOT NULL in its definition.
        let columns: usize = tables.iter().map(|table| table.columns.len()).sum();
        let defined = schema::current().ddl.lines().filter(|line| {
            let line = line.split("--").next().unwrap_or_default();
            line.starts_with("  ") && line.contains(" NULL")
        });
        assert_eq!(columns, defined.count());
        for table in &tables {
            let primary = table.keys.iter().any(|key| key.is_unique);
            assert!(primary, "{table:?}");
            for column in &table.columns {
                let first = column.kind.split(['(', ' ']).next().unwrap_or_default();
                let known = ["varbinary", "bigint", "int", "tinyint", "datetime"];
                assert!(known.contains(&first), "{column:?}");
            }
        }
        for (name, _) in schema::rights() {
            assert!(tables.iter().any(|table| table.name == name), "{name}");
        }
    }

    #[test]
    fn parsed_columns_match_the_servers_description() {
        let tables = tables();
        let table = |name| tables.iter().find(|table| table.name == name);
        let waiter = table("dlock_waiter").expect("the table exists");
        let position = &waiter.columns[0];
        assert_eq!(position.name, "position");
        assert_eq!(position.kind, "bigint unsigned");
        assert_eq!(
            position.definition,
            "BIGINT UNSIGNED NOT NULL AUTO_INCREMENT"
        );
        assert!(position.is_auto_increment && !position.is_nullable);
        let line = IndexDefinition {
            is_unique: false,
            columns: vec!["action".to_owned(), "position".to_owned()],
        };
        assert!(waiter.keys.contains(&line), "{waiter:?}");
        assert_eq!(waiter.keys.len(), 3);
        let lock = table("dlock_lock").expect("the table exists");
        let owner_id = lock.columns.iter().find(|column| column.name == "owner_id");
        assert!(owner_id.is_some_and(|owner_id| owner_id.is_nullable));
    }

    #[test]
    fn integer_display_width_is_not_part_of_the_type() {
        assert_eq!(kind("bigint(20) unsigned"), "bigint unsigned");
        assert_eq!(kind("TINYINT"), "tinyint");
        assert_eq!(kind("VARBINARY(255)"), "varbinary(255)");
    }
}
