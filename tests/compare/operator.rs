//! An operator with its own connection to a real server.

use std::time::Duration;

use dlock::store::Failure;
use dlock::store::mysql::Database;
use dlock::store::operator::{OperatorRequest, OperatorResult};
use testkit::servers;

use crate::server_contender::target;

const LIMIT: Duration = Duration::from_mins(10);

pub(crate) struct Operator(Database);

impl Operator {
    /// Connects an operator and creates the tables.
    pub(crate) fn new(database: &servers::Database) -> Self {
        let mut own = Database::new(target(database, database.port), LIMIT, LIMIT);
        own.setup().expect("the tables can be created");
        Self(own)
    }

    pub(crate) fn apply(
        &mut self,
        request: &OperatorRequest,
        wakes: bool,
    ) -> Result<OperatorResult, Failure> {
        self.0.apply_operator_request(request, wakes)
    }
}
