//! The tables, one line of key and value each. The scope leads every key and is left out here.
//!
//! `0` is one zero byte, which no name holds; integers are big-endian; times sort as
//! [`time_key`](super::key::time_key) spells them. *Derived* rows can be made again from the records.

/// A table, by the byte that stands for it in a stored key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Table {
    /// Plane: `name -> text`. Format, base and the vkey of the default log.
    Meta = 1,
    /// Plane: `tenant -> index in the directory, u64`. Written with the tenant's first row.
    Tenants = 2,
    /// Plane: `-> which frames of the write-ahead log the tables hold`.
    Ahead = 3,
    /// `run -> `[`RunRow`](crate::chain::RunRow). Derived, but for the seal.
    Runs = 16,
    /// `run 0 seq -> `[`RecordRow`](crate::chain::RecordRow). The evidence.
    Records = 17,
    /// `run 0 effect -> seq`. Derived; a row is why an effect cannot start again.
    Effects = 18,
    /// `run -> `[`LeaseRow`](crate::chain::LeaseRow). Kept for ever, so that no epoch is given out twice.
    Leases = 19,
    /// `expires run -> ()` for every lease with an owner.
    Expiries = 20,
    /// `run -> who asked, on what basis, why and when`. First asker stays.
    Cancellations = 21,
    /// `run -> ()` for every open run with records that no log entry covers.
    Unpinned = 22,
    /// `run 0 index -> ()` for every head of the run in the log. Derived from the entries.
    Heads = 23,
    /// `admission key -> run, time`.
    Admissions = 32,
    /// `time admission key -> ()`.
    AdmissionsByAge = 33,
    /// `outcome 0 ordinal -> run`. Derived; one row a run, that of its last conclusion.
    Outcomes = 34,
    /// `outcome -> how many runs`. Derived.
    OutcomeCounts = 35,
    /// `0|1 until run -> reason`; 1 where it waits for no time. Derived; while the last record suspends.
    Waiting = 36,
    /// `updated run -> ()`. Derived.
    Activity = 37,
    /// `source 0 updated run -> ()`. Derived.
    Sources = 38,
    /// `case 0 run 0 seq -> ()`. Derived.
    Cases = 39,
    /// `name -> u64`. Numbers never given out twice.
    Counters = 40,
    /// `name -> value`: size of the tree, last checkpoint signed, last one published.
    Log = 64,
    /// `index -> entry`.
    Entries = 65,
    /// `level index -> tile`, a partial one growing in place. Derived from the entries.
    Tiles = 66,
    /// `size ordinal -> note`. Every checkpoint ever published.
    Published = 67,
    /// `key name -> size` that a witness last cosigned.
    Witnesses = 68,
}
