//! Runs a test on each server. The macros make a test of a scenario for each server. These tests run in parallel, unlike a
//! loop over the servers in one test. A scenario that takes seconds, because it waits, uses these macros.
//!
//! A scenario `f` becomes the tests `f::mariadb`, `f::mysql` and so on.

use crate::servers::{Database, Flavour, Series, shared};

/// Creates a database with dlock's tables on the shared server.
#[track_caller]
pub fn set_up(series: impl Into<Series>) -> Database {
    shared(series).set_up("set_up")
}

/// Runs `test` on a new database with dlock's tables on each kind of server.
pub fn everywhere(test: impl Fn(&Database)) {
    for flavour in Flavour::ALL {
        println!("on {flavour}");
        test(&set_up(flavour));
    }
}

/// Makes a test for each [`Flavour`] of the function with this name, which takes a flavour.
#[macro_export]
macro_rules! on_each_flavour {
    ($scenario:ident) => {
        $crate::on_each!($scenario, Flavour, mariadb = MariaDb, mysql = MySql);
    };
}

/// Makes a test for each [`Series`] that is a single server, of the function with this name, which takes a series.
#[macro_export]
macro_rules! on_each_series {
    ($scenario:ident) => {
        $crate::on_each!(
            $scenario,
            Series,
            mariadb_10_11 = MariaDb1011,
            mariadb_11_8 = MariaDb118,
            mysql_9_7 = MySql97
        );
    };
}

/// Makes the tests of the macros above.
#[macro_export]
macro_rules! on_each {
    ($scenario:ident, $type:ident, $($test:ident = $server:ident),*) => {
        mod $scenario {
            $(
                #[test]
                fn $test() {
                    super::$scenario($crate::servers::$type::$server);
                }
            )*
        }
    };
}
