//! Tests on clusters and behind proxies: dlock works, or refuses the server and states the reason.

mod galera;
mod group;
mod hosts;
mod lost_grants;
mod moved;
mod order;
mod proxies;
mod tidb;
