//! Accounts with an incorrect password, an unknown database or missing privileges.

use mysql::prelude::Queryable;
use testkit::servers::{Database, Flavour, shared};

use super::{Form, actions, exec, free, refused, set_up};

#[test]
fn a_wrong_password_and_an_unknown_account_are_denied() {
    for flavour in Flavour::ALL {
        let database = set_up(shared(flavour), "denied");
        let run = || exec(&database, "init");
        refused(
            run().env("DLOCK_PASSWORD", "wrong"),
            Form::Line,
            77,
            "Access denied",
        );
        // For an unknown account, MySQL requests the password with a randomly chosen authentication plugin.
        refused(run().env("DLOCK_USER", "nobody"), Form::Line, 77, "nobody");
        // dlock does not retry a denied login, regardless of --connect-timeout.
        refused(
            run()
                .env("DLOCK_PASSWORD", "wrong")
                .arg("--connect-timeout")
                .arg("1h"),
            Form::Line,
            77,
            "check the account",
        );
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        free(&database, "init");
    }
}

#[test]
fn an_unknown_database_is_a_configuration_error() {
    for flavour in Flavour::ALL {
        let database = shared(flavour).database("unknown");
        let absent = format!("{}_absent", database.name);
        let grant = format!("GRANT ALL ON `{absent}`.* TO '{}'@'%'", database.user);
        database
            .admin_conn()
            .query_drop(grant)
            .expect("root has the privilege");
        let run = exec(&database, "init").arg("--database").arg(&absent);
        refused(
            run,
            Form::Line,
            78,
            &format!("create it (CREATE DATABASE {absent}) or specify another"),
        );
        // If the account has no privileges on the database, dlock prints the server's message.
        let run = exec(&database, "init").arg("--database").arg("mysql");
        refused(run, Form::Line, 77, "to database 'mysql'");
        free(&database, "init");
    }
}

#[test]
fn an_account_with_missing_grants_is_denied() {
    for flavour in Flavour::ALL {
        let server = shared(flavour);
        let database = set_up(server, "rights");
        let mut reader = database.clone();
        reader.user = format!("{}_reader", database.user);
        let Database {
            name,
            user,
            password,
            ..
        } = &reader;
        for statement in [
            format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{password}'"),
            format!("GRANT SELECT ON `{name}`.* TO '{user}'@'%'"),
        ] {
            server
                .admin()
                .query_drop(&statement)
                .expect("root has the privilege");
        }
        refused(
            exec(&reader, "init"),
            Form::Line,
            77,
            "dlock setup --print shows the tables and the grants",
        );
        assert_eq!(actions(&database), [""; 0], "{flavour}");
        free(&database, "init");
    }
}
