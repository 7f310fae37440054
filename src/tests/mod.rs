//! Tests of the journal as a whole.

mod check;
mod commit;
mod contract;
mod cost;
mod damage;
mod kill;
mod logged;
mod model;
mod opening;
mod power;
mod rebuild;
mod story;
pub(crate) mod world;
