//! The disk with the server's binary log is full, and the server cannot commit.
//!
//! MariaDB and MySQL then wait inside the commit, keep the row locked, and check once a minute whether the disk has
//! room again. The test does not wait for this check, but restarts the server with the log on another disk.

use std::fs;
use std::io::ErrorKind;

use testkit::cli_runner::eventually;
use testkit::servers::Server;

use super::{Scene, on_each};

#[test]
fn a_full_server_disk_stops_the_command_and_prevents_new_runs() {
    on_each(|flavour| {
        let log = [
            "--log-bin=../disk/binlog",
            "--binlog-format=ROW",
            "--server-id=1",
        ];
        let disk = ("DLOCK_TEST_SERVER_DISK", "8M".to_owned());
        let mut server = Server::start_in(flavour, &log, &[disk]);
        let scene = Scene::on(&server);
        let (contender, ()) = scene.stops_if(|| {
            let filled = fs::write(server.disk().join("ballast"), vec![1; 9 << 20]);
            let error = filled.expect_err("the disk is smaller than the file");
            assert_eq!(error.kind(), ErrorKind::StorageFull, "{flavour}");
        });
        eventually("the server logs the reason", || {
            let log = fs::read_to_string(server.dir().join("log"));
            log.is_ok_and(|log| log.contains("Disk is full writing"))
        });
        let newcomer = scene.exec("newcomer", &["--wait", "2s"], "").run();
        assert!(matches!(newcomer.status, Some(69 | 75)), "{newcomer:#?}");
        // Simulates an operator who makes room on the disk and restarts the server.
        for file in fs::read_dir(server.disk()).expect("the disk exists") {
            let file = file.expect("the disk can be read");
            if file.file_name() != "ballast" {
                let copy = server.dir().join("disk").join(file.file_name());
                fs::copy(file.path(), copy).expect("the other disk has room");
            }
        }
        server.restart();
        assert_eq!(contender.wait().status, Some(0), "{flavour}");
        scene.over(&["holder", "contender"]);
    });
}
