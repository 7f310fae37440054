//! One run from its first record to its offline proof, on disk.

use runseal_evidence::export::ExportLine;
use runseal_tlog::checkpoint::SignedCheckpoint;
use runseal_tlog::hash::LeafHash;
use runseal_tlog::inclusion;

use super::world::{TTL, base, concluded, note, run, started, tenant};
use crate::{CreateOptions, Journal, OpenError};

#[test]
fn a_run_goes_from_its_first_record_to_its_proof_and_survives_closing() {
    let dir = tempfile::tempdir().unwrap();
    let plane = dir.path().join("plane");
    let journal = Journal::create(&plane, &base(), &CreateOptions { sign_records: true }).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    let lease = acme.acquire(&run("r1"), "worker", TTL).unwrap();
    acme.append(&run("r1"), lease.epoch, vec![note("hello"), started(1)]).unwrap();
    assert_eq!(acme.pin_heads().unwrap(), 1);
    acme.append(&run("r1"), lease.epoch, vec![concluded("succeeded")]).unwrap();
    let seal = acme.seal(&run("r1"), lease.epoch).unwrap();
    assert_eq!((seal.index, seal.records), (1, 3));
    acme.append_once(&run("r2"), "w", vec![note("x"), concluded("failed")], true).unwrap();
    let note = acme.sign_checkpoint().unwrap();
    acme.publish(&note).unwrap();
    let proof = acme.prove(&run("r1")).unwrap();
    let mut export = Vec::new();
    acme.export(None, &mut export).unwrap();
    let vkey = acme.vkey();
    assert!(matches!(Journal::open(&plane), Err(OpenError::InUse { .. })));
    drop((journal, acme));

    let signed = SignedCheckpoint::open(proof.note.clone(), [&vkey], []).unwrap();
    let (size, root) = (signed.checkpoint().size(), signed.checkpoint().root());
    let leaf = LeafHash::of(proof.extra.as_ref().unwrap());
    inclusion::verify(proof.index, size, leaf, &proof.hashes, root).unwrap();
    let kinds = export.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(|line| {
        match ExportLine::parse(line).unwrap() {
            ExportLine::Header(_) => 'h',
            ExportLine::Entry(_) => 'e',
            ExportLine::Run(_) => 'r',
            ExportLine::Record(_) => '.',
            ExportLine::End(_) => '$',
        }
    });
    assert_eq!(kinds.collect::<String>(), "heeer...r..$");

    let journal = Journal::open(&plane).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    assert_eq!(acme.sign_checkpoint().unwrap(), note);
    assert_eq!(acme.read(&run("r1"), 1, 10).unwrap().len(), 3);
    let report = acme.check(&mut |_| {}).unwrap();
    assert_eq!(report.contradiction, None);
    assert_eq!((report.runs, report.records, report.entries), (2, 5, 3));
    assert_eq!(journal.tenants().unwrap(), [tenant("acme")]);
    assert_eq!(journal.directory().tree_size().unwrap(), 1);
}
