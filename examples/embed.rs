//! The journal inside a program of yours: open, claim a run, write what an agent does, seal it, sign.
//!
//! `cargo run --example embed --no-default-features`

use std::error::Error;
use std::time::Duration;

use runseal::evidence::json::Json;
use runseal::evidence::name::{Base, EffectKey, Kind, RunId, TenantId};
use runseal::evidence::record::RecordDraft;
use runseal::{AppendError, CreateOptions, Journal, OpenError};

fn main() -> Result<(), Box<dyn Error>> {
    // A plane is made once and opened from then on; another process that has it open is told apart.
    let dir = std::env::temp_dir().join("runseal-embed-example");
    let journal = match Journal::create(&dir, &Base::new("log.example.com/plane")?, &CreateOptions::default())
    {
        Err(OpenError::Exists { .. }) => Journal::open(&dir)?,
        made => made?,
    };
    let acme = journal.tenant(&TenantId::new("acme")?);

    // Whoever writes to a run claims it first. The epoch fences out everybody who claimed it before.
    let run = RunId::new(format!("refund-{:04}", acme.tree_size()?))?;
    let lease = acme.acquire(&run, "worker-1", Duration::from_secs(30))?;

    // A batch is appended whole or not at all, and durable when the call returns.
    acme.append(&run, lease.epoch, vec![record("RunAdmitted", r#"{"source":"support"}"#, None)?])?;

    // An effect starts once in a run: after a crash the second start is refused, and says which record was
    // the first, so that the payment is looked up and not made again.
    let pay = EffectKey::new("d740f1079e06559bc6839ee3bf0588f83c821977aca7eb50cc8d91fc97b11bde")?;
    let start = || record("EffectStarted", r#"{"tool":"refund","amount":129.90}"#, Some(&pay));
    acme.append(&run, lease.epoch, vec![start()?])?;
    match acme.append(&run, lease.epoch, vec![start()?]) {
        Err(AppendError::DuplicateEffect { seq, .. }) => println!("started before, as record {seq}"),
        other => drop(other?),
    }
    acme.append(
        &run,
        lease.epoch,
        vec![record("EffectDone", r#"{"id":12345678901234567890}"#, Some(&pay))?],
    )?;

    // A seal freezes the run and enters it in the tenant's log; its outcome is that of the last record.
    acme.append(&run, lease.epoch, vec![record("RunConcluded", r#"{"outcome":"succeeded"}"#, None)?])?;
    let sealed = acme.seal(&run, lease.epoch)?;
    println!("sealed as entry {} with {} records", sealed.index, sealed.records);

    // A checkpoint says what the log holds. Published, it is what readers and witnesses see.
    let checkpoint = acme.sign_checkpoint()?;
    acme.publish(&checkpoint)?;
    println!("\n{checkpoint}");

    // And this is what to hand out: a proof that needs nothing but the log's key.
    println!("{}", acme.prove(&run)?);
    Ok(())
}

fn record(kind: &str, payload: &str, effect: Option<&EffectKey>) -> Result<RecordDraft, Box<dyn Error>> {
    let (kind, payload) = (Kind::new(kind)?, Json::parse(payload.as_bytes())?);
    Ok(RecordDraft { kind, payload, effect: effect.cloned(), case: None })
}
