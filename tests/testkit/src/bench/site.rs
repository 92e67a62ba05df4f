//! A server with a database that has the tables of dlock.

use super::{dlock, succeed};
use crate::servers::{Database, Flavour, Server};

/// A running server, and dlock's account on it.
pub struct Site {
    pub server: Server,
    pub database: Database,
}

impl Site {
    pub fn start(flavour: Flavour, options: &[&str]) -> Self {
        let server = Server::start(flavour, options);
        let database = server.database("bench");
        succeed(&mut dlock(&database, &["setup"]));
        Self { server, database }
    }

    pub fn name(&self) -> &'static str {
        self.server.flavour().product()
    }
}
