//! Faults of the members of a group of MySQL servers with a single primary.

use mysql::prelude::Queryable;
use testkit::clusters::{Group, value};
use testkit::servers::Server;

use super::Machines;
use crate::fault_kind::FaultKind;
use crate::schedule::Step;

/// The members that a member sees as online, and the state that it has itself.
const ONLINE: &str = "SELECT COUNT(*) FROM performance_schema.replication_group_members \
    WHERE member_state='ONLINE'";
const OWN_STATE: &str = "SELECT member_state FROM performance_schema.replication_group_members \
    WHERE member_id=@@server_uuid";

/// Addresses of all members, which are equal on all members.
const SEEDS: &str = "SELECT @@group_replication_group_seeds";

const PRIMARY: &str = "SELECT member_id FROM performance_schema.replication_group_members \
    WHERE member_role='PRIMARY'";

impl Machines for Group {
    fn nodes(&self) -> &[Server] {
        &self.members
    }

    /// Half of the faults affect the primary.
    fn victim(&self, step: Step) -> usize {
        let chosen = step.choice % self.members.len();
        let primary = value(&self.members[0], PRIMARY);
        let is_primary = |member: &Server| value(member, "SELECT @@server_uuid") == primary;
        let primary = self.members.iter().position(is_primary);
        match (step.kind, primary) {
            (FaultKind::SwitchPrimary, Some(primary)) if chosen == primary => {
                (chosen + 1) % self.members.len()
            }
            (FaultKind::SwitchPrimary, _) | (_, None) => chosen,
            (_, Some(primary)) if step.severity < 0.5 => primary,
            _ => chosen,
        }
    }

    fn inject(&mut self, kind: FaultKind, index: usize, pause: &dyn Fn()) {
        let other = &self.members[(index + 1) % self.members.len()];
        let seeds = value(other, SEEDS).expect("a member has seeds");
        let member = &mut self.members[index];
        match kind {
            FaultKind::SwitchPrimary => {
                let uuid = value(member, "SELECT @@server_uuid").expect("a value");
                let switch = format!("DO group_replication_set_as_primary('{uuid}')");
                member.run(&switch);
            }
            FaultKind::IsolateNode => {
                member.run("STOP GROUP_REPLICATION");
                pause();
            }
            _ => {
                member.restart();
                configure(member, &seeds);
            }
        }
    }

    /// A member that the others have expelled tries to rejoin only every five minutes, so it is started again here. The
    /// start fails as long as the others have not expelled the member.
    fn heal(&mut self) -> bool {
        // Every member is repaired, also after one that is not online.
        let online = self.members.iter().filter(|member| {
            let Ok(mut root) = member.try_admin() else {
                return false;
            };
            let state: Option<String> = root.query_first(OWN_STATE).ok().flatten();
            if matches!(state.as_deref(), None | Some("OFFLINE" | "ERROR" | "")) {
                for statement in [
                    "STOP GROUP_REPLICATION",
                    "SET GLOBAL offline_mode=OFF",
                    "START GROUP_REPLICATION",
                ] {
                    // If a statement fails, the next call repeats it.
                    let _ = root.query_drop(statement);
                }
            }
            let online: Option<u64> = root.query_first(ONLINE).ok().flatten();
            online == Some(3)
        });
        online.count() == self.members.len()
    }
}

pub(crate) fn start() -> Group {
    let group = Group::start();
    for member in &group.members {
        let seeds = value(member, SEEDS);
        configure(member, &seeds.expect("a member has seeds"));
    }
    group
}

/// Sets the variables that a restart resets.
fn configure(member: &Server, seeds: &str) {
    for statement in [
        &format!("SET GLOBAL group_replication_group_seeds='{seeds}'"),
        "SET GLOBAL group_replication_member_expel_timeout=0",
        // With the default of 60 s, a member that cannot reach its first donor would join after a minute.
        "SET GLOBAL group_replication_recovery_reconnect_interval=1",
    ] {
        member.run(statement);
    }
}
