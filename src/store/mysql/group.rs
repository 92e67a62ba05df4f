//! The members of a group of MySQL servers (Group Replication), as one server sees them, and why it cannot be used.

use std::fmt;

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GroupMember {
    /// True for the server that returned the list.
    is_own: bool,
    state: String,
    role: String,
    /// Host and port, as the member reports them.
    address: String,
}

/// The list of members on one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct GroupView(Vec<GroupMember>);

/// State of the server in its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MemberState {
    /// The server is not an ONLINE member. Contains its state.
    NotOnline(String),
    /// The server reaches only this number of members out of all members.
    NoMajority(usize, usize),
    /// The server is online, and another member is the only one that accepts writes.
    Secondary,
    /// The server is online and accepts writes, with this number of online members.
    Primary(usize),
}

impl GroupView {
    /// Reads the rows of [`super::statements::GROUP_MEMBERS`].
    pub(super) fn read(rows: Vec<Vec<Option<String>>>) -> Self {
        let member = |row: Vec<Option<String>>| {
            let mut cells = row.into_iter().map(Option::unwrap_or_default);
            let mut cell = || cells.next().unwrap_or_default();
            GroupMember {
                is_own: cell() == "1",
                state: cell(),
                role: cell(),
                address: cell(),
            }
        };
        Self(rows.into_iter().map(member).collect())
    }

    /// Returns the state of the server that returned the list.
    pub(super) fn own_state(&self) -> MemberState {
        let count = |state: &str| self.0.iter().filter(|one| one.state == state).count();
        let reached = self.0.len() - count("UNREACHABLE");
        match self.0.iter().find(|member| member.is_own) {
            Some(own) if own.state != "ONLINE" => MemberState::NotOnline(own.state.clone()),
            None => MemberState::NotOnline("OFFLINE".to_owned()),
            Some(_) if reached * 2 <= self.0.len() => {
                MemberState::NoMajority(reached, self.0.len())
            }
            Some(own) if own.role == "SECONDARY" => MemberState::Secondary,
            Some(_) => MemberState::Primary(count("ONLINE")),
        }
    }

    /// Returns the address of the only primary. None if the server does not know it, or if there are several.
    pub(super) fn primary(&self) -> Option<&str> {
        let is_primary = |one: &&GroupMember| one.role == "PRIMARY" && one.state == "ONLINE";
        let mut primaries = self.0.iter().filter(is_primary);
        match (primaries.next(), primaries.next()) {
            (Some(one), None) => Some(&one.address),
            _ => None,
        }
    }

    /// Returns the advice which server to use instead.
    pub(super) fn advice(&self) -> String {
        match (self.own_state(), self.primary()) {
            (MemberState::Primary(_), _) => String::new(),
            (MemberState::Secondary | MemberState::NotOnline(_), Some(primary)) => {
                format!("use the primary, {primary}")
            }
            _ => "use an ONLINE member of the part of the group that has a majority".to_owned(),
        }
    }
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnline(state) => write!(
                f,
                "configured for Group Replication, but {state} and not an ONLINE member of its group"
            ),
            Self::NoMajority(reached, all) => write!(
                f,
                "a group member without a majority: it reaches {reached} of {all} members"
            ),
            Self::Secondary => f.write_str("a secondary of a group, which refuses writes"),
            Self::Primary(online) => {
                write!(f, "the primary of a group with {online} online members")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupView, MemberState};

    fn view(members: &[(&str, &str, &str)]) -> GroupView {
        let rows = members
            .iter()
            .enumerate()
            .map(|(number, (own, state, role))| {
                let address = format!("db{}:3306", number + 1);
                vec![
                    Some((*own).to_owned()),
                    Some((*state).to_owned()),
                    Some((*role).to_owned()),
                    Some(address),
                ]
            });
        GroupView::read(rows.collect())
    }

    #[test]
    fn the_state_of_a_member_follows_from_the_list() {
        let outside = |state: &str| MemberState::NotOnline(state.to_owned());
        for (members, state, primary) in [
            (vec![], outside("OFFLINE"), None),
            (vec![("1", "OFFLINE", "")], outside("OFFLINE"), None),
            (vec![("0", "OFFLINE", "")], outside("OFFLINE"), None),
            (
                vec![("0", "ONLINE", "PRIMARY"), ("1", "RECOVERING", "SECONDARY")],
                outside("RECOVERING"),
                Some("db1:3306"),
            ),
            (
                vec![("0", "ONLINE", "PRIMARY"), ("1", "ONLINE", "SECONDARY")],
                MemberState::Secondary,
                Some("db1:3306"),
            ),
            (
                vec![
                    ("1", "ONLINE", "PRIMARY"),
                    ("0", "UNREACHABLE", "SECONDARY"),
                ],
                MemberState::NoMajority(1, 2),
                Some("db1:3306"),
            ),
            (
                vec![
                    ("1", "ONLINE", "PRIMARY"),
                    ("0", "UNREACHABLE", "PRIMARY"),
                    ("0", "ONLINE", "PRIMARY"),
                ],
                MemberState::Primary(2),
                None,
            ),
        ] {
            let view = view(&members);
            assert_eq!(view.own_state(), state, "{members:?}");
            assert_eq!(view.primary(), primary, "{members:?}");
        }
    }
}
