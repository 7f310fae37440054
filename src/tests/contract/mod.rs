//! The promises of the journal, each held on every engine.
//!
//! A promise is a function over a [`World`](super::world::World); `on_every_engine!` makes a test of it for
//! redb in memory, redb in a file, an ordered map, and such a map behind a write-ahead log.

#![expect(clippy::needless_pass_by_value, reason = "a promise may restart its world, which takes it")]

/// Declares one test a promise and engine.
macro_rules! on_every_engine {
    ($($promise:ident)*) => {
        mod in_memory { $(#[test] fn $promise() { super::$promise(crate::tests::world::World::in_memory()); })* }
        mod on_disk { $(#[test] fn $promise() { super::$promise(crate::tests::world::World::on_disk()); })* }
        mod logged { $(#[test] fn $promise() { super::$promise(crate::tests::world::World::logged()); })* }
        mod on_a_map { $(#[test] fn $promise() { super::$promise(crate::tests::world::World::on_a_map()); })* }
    };
}

mod appending;
mod indexes;
mod leases;
mod logs;
mod reading;
mod restoring;
mod sealing;
mod tenants;
