//! Statements that must succeed. An error of the server fails the test, with the statement in the message.

use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, Opts, OptsBuilder};

use crate::cli_runner::eventually;
use crate::servers::{Database, Server};

pub fn connect(url: &str) -> mysql::Result<Conn> {
    // By default, the client changes to the Unix socket of a local server.
    let options = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
    Conn::new(options)
}

pub trait Sql {
    /// Executes `statements`, which semicolons separate, and discards their rows.
    fn run(&mut self, statements: impl AsRef<str>);

    /// Returns the rows that `query` selects.
    fn rows<T: FromRow>(&mut self, query: impl AsRef<str>) -> Vec<T>;

    /// Returns the first row that `query` selects. None if there is no row.
    fn first<T: FromRow>(&mut self, query: impl AsRef<str>) -> Option<T>;

    /// Returns the first row that `query` selects. Panics if there is no row.
    fn value<T: FromRow>(&mut self, query: impl AsRef<str>) -> T;

    /// Waits until `SELECT condition` returns true. The condition may contain FROM and WHERE.
    fn wait_until(&mut self, condition: impl AsRef<str>);
}

// The panics are in no closure, so that the message names the line of the caller.
impl Sql for Conn {
    #[track_caller]
    fn run(&mut self, statements: impl AsRef<str>) {
        let statements = statements.as_ref();
        let done = self.query_iter(statements).and_then(|mut results| {
            // The error of a later statement is a row of its result.
            while let Some(mut result) = results.iter() {
                result.try_for_each(|row| row.map(drop))?;
            }
            Ok(())
        });
        if let Err(error) = done {
            panic!("{statements}: {error}");
        }
    }

    #[track_caller]
    fn rows<T: FromRow>(&mut self, query: impl AsRef<str>) -> Vec<T> {
        let query = query.as_ref();
        match self.query(query) {
            Ok(rows) => rows,
            Err(error) => panic!("{query}: {error}"),
        }
    }

    #[track_caller]
    fn first<T: FromRow>(&mut self, query: impl AsRef<str>) -> Option<T> {
        self.rows(query).into_iter().next()
    }

    #[track_caller]
    fn value<T: FromRow>(&mut self, query: impl AsRef<str>) -> T {
        let query = query.as_ref();
        let Some(row) = self.first(query) else {
            panic!("{query}: no row");
        };
        row
    }

    #[track_caller]
    fn wait_until(&mut self, condition: impl AsRef<str>) {
        let query = format!("SELECT {}", condition.as_ref());
        eventually(&query, || self.first(&query) == Some(Some(true)));
    }
}

/// Makes each call in a new session of root.
macro_rules! in_new_sessions {
    ($type:ident, $session:ident) => {
        impl $type {
            #[track_caller]
            pub fn run(&self, statements: impl AsRef<str>) {
                self.$session().run(statements);
            }

            #[track_caller]
            pub fn rows<T: FromRow>(&self, query: impl AsRef<str>) -> Vec<T> {
                self.$session().rows(query)
            }

            #[track_caller]
            pub fn first<T: FromRow>(&self, query: impl AsRef<str>) -> Option<T> {
                self.$session().first(query)
            }

            #[track_caller]
            pub fn value<T: FromRow>(&self, query: impl AsRef<str>) -> T {
                self.$session().value(query)
            }

            #[track_caller]
            pub fn wait_until(&self, condition: impl AsRef<str>) {
                self.$session().wait_until(condition);
            }
        }
    };
}

in_new_sessions!(Database, admin_conn);
in_new_sessions!(Server, admin);
