//! The processes above this one: its parent, that one's parent, and so on.
//!
//! Reads `/proc` only. Process ids are those of this process's own namespace, and a process that
//! `/proc` hides (another namespace, `hidepid`) ends the list.

use std::ffi::CStr;
use std::fs;
use std::iter;

use rustix::process::getpid;

use super::descendants::parent;

/// Whether a process called `name` whose parent is `pid` is above this one.
#[must_use]
pub fn have(name: &CStr, pid: u32) -> bool {
    let own = getpid().as_raw_nonzero().get();
    iter::successors(Some(own), |below| parent(*below)).any(|ancestor| {
        let is_its_child = parent(ancestor).and_then(|above| u32::try_from(above).ok());
        is_its_child == Some(pid) && is_called(ancestor, name)
    })
}

fn is_called(pid: i32, name: &CStr) -> bool {
    fs::read(format!("/proc/{pid}/comm"))
        .is_ok_and(|comm| comm.strip_suffix(b"\n") == Some(name.to_bytes()))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::os::unix::process::parent_id;

    use super::have;

    #[test]
    fn an_ancestor_is_known_by_its_name_and_its_parent() {
        let name = fs::read("/proc/self/comm").expect("/proc is there");
        let name = CString::new(name.trim_ascii_end()).expect("no NUL byte");
        assert!(have(&name, parent_id()));
        assert!(!have(c"another", parent_id()));
        assert!(!have(&name, u32::MAX));
    }
}
