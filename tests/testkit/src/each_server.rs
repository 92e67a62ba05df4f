//! Runs a test on each server. The macros make a test of a scenario for each server. These tests run in parallel, unlike a loop over the servers in
//! one test. A scenario that takes seconds, because it waits, uses these macros.
//!
//! A scenario `f` becomes the tests `f::mariadb`, `f::mysql` and so on.

use crate::cli_runner::Dlock;
use crate::servers::{Database, Flavour, Series, shared};

/// Creates a database with dlock's tables.
#[track_caller]
pub fn set_up(series: impl Into<Series>) -> Database {
    let database = shared(series).database("set_up");
    Dlock::on(&database, ["setup", "-q"]).expect(0, "", "");
    database
}

/// Runs `test` on a new database with dlock's tables on each kind of server.
pub fn everywhere(test: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        test(&set_up(flavour));
    }
}

/// Makes a test for each [`Flavour`](crate::servers::Flavour) of the function with this name, which takes a flavour.
#[macro_export]
macro_rules! on_each_flavour {
    ($scenario:ident) => {
        mod $scenario {
            use $crate::servers::Flavour;

            #[test]
            fn mariadb() {
                super::$scenario(Flavour::MariaDb);
            }

            #[test]
            fn mysql() {
                super::$scenario(Flavour::MySql);
            }
        }
    };
}

/// Makes a test for each [`Series`](crate::servers::Series) that is a single server, of the function with this name, which
/// takes a series.
#[macro_export]
macro_rules! on_each_series {
    ($scenario:ident) => {
        mod $scenario {
            use $crate::servers::Series;

            #[test]
            fn mariadb_10_11() {
                super::$scenario(Series::MariaDb1011);
            }

            #[test]
            fn mariadb_11_8() {
                super::$scenario(Series::MariaDb118);
            }

            #[test]
            fn mysql_9_7() {
                super::$scenario(Series::MySql97);
            }
        }
    };
}
