//! Servers beside the shared ones. A second server can have the tables of a database as they are at one moment. If it
//! replaces the first server later, all writes since that moment are lost, as after a fail-over to an asynchronous replica
//! that lacks them.

use std::sync::OnceLock;

use mysql::prelude::Queryable;
use mysql::{Params, Row, Value};
use testkit::servers::{Database, Flavour, Server};
use testkit::sql::Sql;

/// A server of each flavour, which starts when a test first uses it.
type Servers = [OnceLock<Server>; 2];

fn of(servers: &'static Servers, flavour: Flavour) -> &'static Server {
    let index = usize::from(flavour == Flavour::MySql);
    servers[index].get_or_init(|| Server::start(flavour, &[]))
}

/// Returns the second server of `flavour`, which accepts writes. All tests share it.
pub(crate) fn second(flavour: Flavour) -> &'static Server {
    static SERVERS: Servers = [const { OnceLock::new() }; 2];
    of(&SERVERS, flavour)
}

/// Returns the read-only server of `flavour`. All tests share it.
pub(crate) fn read_only(flavour: Flavour) -> &'static Server {
    static SERVERS: Servers = [const { OnceLock::new() }; 2];
    let server = of(&SERVERS, flavour);
    server.run("SET GLOBAL read_only=ON");
    server
}

/// Copies the tables and the account of `database` to `server`. Returns the copy.
#[track_caller]
pub(crate) fn copy(database: &Database, server: &Server) -> Database {
    let copy = server.same(database);
    copy.create(&mut server.admin());
    let (mut from, mut to) = (database.admin_conn(), copy.admin_conn());
    let tables: Vec<String> = from.rows("SHOW TABLES");
    for table in tables {
        let create: Option<(String, String)> = from.first(format!("SHOW CREATE TABLE `{table}`"));
        let (_, create) = create.expect("one row");
        to.run(create);
        let rows: Vec<Row> = from.rows(format!("SELECT * FROM `{table}`"));
        for row in rows {
            let values: Vec<Value> = row.unwrap();
            let marks = vec!["?"; values.len()].join(",");
            to.exec_drop(
                format!("INSERT INTO `{table}` VALUES ({marks})"),
                Params::Positional(values),
            )
            .expect("the row is inserted");
        }
    }
    copy
}
