//! The operator on a real server, with a connection of its own.

use std::time::Duration;

use dlock::store::Failure;
use dlock::store::intervention::{Intervention, Outcome};
use dlock::store::mysql::Database;

use crate::peer::target;
use crate::servers;

const LIMIT: Duration = Duration::from_mins(10);

pub(crate) struct Operator(Database);

impl Operator {
    /// Makes the tables as well.
    pub(crate) fn new(database: &servers::Database) -> Self {
        let mut own = Database::new(target(database, database.port), LIMIT, LIMIT);
        own.setup().expect("the tables can be made");
        Self(own)
    }

    pub(crate) fn intervene(&mut self, it: &Intervention, wakes: bool) -> Result<Outcome, Failure> {
        self.0.intervene(it, wakes)
    }
}
