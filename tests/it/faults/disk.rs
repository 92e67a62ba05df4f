//! The disk with the server's binary log is full, and nothing can be committed.
//!
//! Both servers then wait inside of the commit and look once a minute whether there is room again; meanwhile the row
//! is locked. Nobody waits for that here: the server is restarted with its log on a disk that is empty otherwise.

use std::fs;
use std::io::ErrorKind;

use super::{Scene, on_each};
use crate::dlock::eventually;
use crate::servers::Server;

const OPTIONS: [&str; 3] = [
    "--log-bin=../disk/binlog",
    "--binlog-format=ROW",
    "--server-id=1",
];

#[test]
fn a_server_whose_disk_is_full_stops_the_command_and_nobody_runs_until_there_is_room() {
    on_each(|flavour| {
        let mut server = Server::with_disk(flavour, "8M", &OPTIONS);
        let scene = Scene::on(&server);
        let holder = scene.stubborn_holder("3s");
        let contender = scene.contender();
        scene.queued();
        let filled = fs::write(server.disk().join("ballast"), vec![1; 9 << 20]);
        let error = filled.expect_err("the disk is smaller than that");
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{flavour}");
        let outcome = holder.running.wait();
        outcome.expect(76, "term\n", "cannot keep init: ");
        eventually("the server says why", || {
            let log = fs::read_to_string(server.dir().join("log"));
            log.is_ok_and(|log| log.contains("Disk is full writing"))
        });
        let newcomer = scene.exec("newcomer", &["--wait", "2s"], "").run();
        assert!(
            matches!(newcomer.status, Some(69 | 75)),
            "{flavour}: {newcomer:#?}"
        );
        // An administrator makes room and is not patient.
        for file in fs::read_dir(server.disk()).expect("the disk is there") {
            let file = file.expect("it can be read");
            if file.file_name() != "ballast" {
                let kept = server.dir().join("disk").join(file.file_name());
                fs::copy(file.path(), kept).expect("there is room here");
            }
        }
        server.restart();
        assert_eq!(contender.wait().status, Some(0), "{flavour}");
        scene.over(&["holder", "contender"]);
    });
}
