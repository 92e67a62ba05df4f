//! Unit tests of the keeper.

mod abandoned;
pub(in crate::protocol) mod address;
mod single_look;
