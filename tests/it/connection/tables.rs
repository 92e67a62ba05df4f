//! The first exec creates dlock's tables. `versions` tests that no command but setup changes existing tables.

use std::fs;

use testkit::cli_runner::Dlock;
use testkit::command::Stage;
use testkit::servers::shared;

use crate::faults::on_each;

#[test]
fn concurrent_first_execs_create_the_tables_and_all_run() {
    on_each(|flavour| {
        let database = shared(flavour).database("together");
        let stage = Stage::new();
        let count = stage.path("count");
        let count = count.to_str().expect("the path is UTF-8");
        let command = format!("read -r n <{count} || n=0; echo $((n + 1)) >{count}");
        fs::write(count, "0\n").expect("the folder is writable");
        let exec = ["exec", "-q", "-a", "init", "--", "sh", "-c", &command];
        let runs = [(); 8].map(|()| Dlock::on(&database, exec).start());
        for run in runs {
            run.wait().expect(0, "", "");
        }
        let ran = fs::read_to_string(count).expect("the file exists");
        assert_eq!(ran, "8\n", "{flavour}");
        let tables: Vec<String> = database.rows("SHOW TABLES");
        let wanted = "fence history lock schema slot success waiter".split(' ');
        let wanted: Vec<String> = wanted.map(|it| format!("dlock_{it}")).collect();
        assert_eq!(tables, wanted, "{flavour}");
        let versions: Vec<u32> = database.rows("SELECT version FROM dlock_schema");
        assert_eq!(versions, [3], "{flavour}");
    });
}
