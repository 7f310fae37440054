//! Durable steps: the results of a run's steps, as one file keeps them, and how a run's conclusion commits to
//! them.
//!
//! ```text
//! file    = header ‖ frame*
//! header  = "runseal steps\r\n" (15 bytes) ‖ version 0x01 ‖ store id (16 bytes, random)
//! frame   = u32be(bytes of the payload) ‖ payload ‖ head (32 bytes)
//! payload = key (32) ‖ input digest (32) ‖ u64be(revision) ‖ u32be(steps in the plan) ‖ u32be(bytes of the value)
//!           ‖ u16be(bytes of tenant, run, path, definition, codec) ‖ tenant ‖ run ‖ path ‖ definition ‖ codec ‖ value
//!
//! digest(step)         = SHA-256("runseal/step/v1\n" ‖ payload)
//! genesis(store)       = SHA-256("runseal/step-file/v1\n" ‖ store id)
//! head(frame)          = SHA-256("runseal/step-frame/v1\n" ‖ store id ‖ u64be(offset of the frame)
//!                                ‖ head of the frame before, or genesis ‖ digest)
//! genesis(tenant, run) = SHA-256("runseal/run-steps/v1\n" ‖ u16be(bytes of tenant) ‖ tenant ‖ u16be(bytes of run) ‖ run)
//! head(run, step)      = SHA-256("runseal/run-step/v1\n" ‖ head of the run's step before, or genesis ‖ digest)
//! ```
//!
//! One chain runs through the whole file and binds each frame to this store and to its place in it. A second
//! one runs through the steps of each run alone, whatever stands between them and in whichever file: its head
//! is what the run's `RunConcluded` record carries ([`StepsCommitment`]).
//!
//! A payload says its own length, so that an altered length prefix over an intact payload is seen at once, and
//! what follows a cut frame is judged in time linear in its bytes ([`Scan::finish`]).
//!
//! | module | holds |
//! |---|---|
//! | `digest` | keys, digests and heads |
//! | `step` | a step, and the definition of its run |
//! | `payload` | the bytes of a step, written or read in place |
//! | `frame` | header, frames and the chain through them |
//! | `run` | which steps may stand together in a run |
//! | `scan` | a file read as a stream |
//! | `ahead` | payloads hashed before the scan comes to them |
//! | `tail` | what the end of a file is: torn, or damaged |
//! | `audit` | a file read past its faults, each run held against its conclusion |
//! | `commitment` | what a conclusion says of its run's steps |

mod ahead;
mod audit;
mod commitment;
mod digest;
mod frame;
mod payload;
mod run;
mod scan;
mod step;
mod tail;

pub use self::{
    ahead::Digested,
    audit::{AuditedSteps, NamedDifference, Standing, StepsAudit},
    commitment::{CommitmentFault, Mark, RunSteps, StepDifference, StepsCommitment},
    digest::{DigestError, InputDigest, RunHead, StepDigest, StepKey, StoreHead},
    frame::{
        FRAME_OVERHEAD_BYTES, Frame, FrameChain, FrameFault, HEADER_BYTES, Header, HeaderFault, StoreId,
    },
    payload::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, Payload, StepFault, StepView},
    run::{JoinFault, KnownRun},
    scan::{End, Scan, StepsFault},
    step::{Definition, Drift, Step},
};
