//! The processes of a run. The monitor enforces the deadline, the supervisor decides which signals the command's tree
//! receives, and a hook runs for each event of the run.

pub mod hook;
pub mod monitor;
pub mod supervisor;
