//! Unit tests of the keeper.

mod abandoned;
mod address;
mod single_look;
