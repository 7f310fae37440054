//! Making and opening a plane: what is refused, and that refusing changes nothing.

use std::fs;
use std::path::Path;

use super::world::{base, concluded, note, run, tenant};
use crate::store::{Engine, Overlay, RedbEngine, Scope, Space, Table};
use crate::{
    AheadFault, CheckpointError, CreateOptions, Fault, Journal, KeyFileError, OpenError, Remembered,
};

fn made(dir: &Path) -> std::path::PathBuf {
    let plane = dir.join("plane");
    drop(Journal::create(&plane, &base(), &CreateOptions { sign_records: true }).unwrap());
    plane
}

fn seal(plane: &Path, name: &str) {
    let journal = Journal::open(plane).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    acme.append_once(&run(name), "w", vec![note(name), concluded("succeeded")], true).unwrap();
    acme.sign_checkpoint().unwrap();
}

#[test]
fn a_plane_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    let key = fs::read(plane.join("master.key")).unwrap();
    let again = || Journal::create(&plane, &base(), &CreateOptions::default()).unwrap_err();
    assert!(matches!(again(), OpenError::Exists { path } if path.ends_with("journal.redb")));
    // A key without its journal is not made over either: what it signed lasts.
    fs::remove_file(plane.join("journal.redb")).unwrap();
    assert!(matches!(again(), OpenError::Exists { path } if path.ends_with("master.key")));
    assert_eq!(fs::read(plane.join("master.key")).unwrap(), key);
    // Nor is a plane made over the memory of another, which it could not continue.
    let left = dir.path().join("left");
    fs::create_dir_all(left.join("signed")).unwrap();
    let refused = Journal::create(&left, &base(), &CreateOptions::default()).unwrap_err();
    assert!(matches!(refused, OpenError::Exists { path } if path.ends_with("signed")));
    assert!(matches!(Journal::open(&plane).unwrap_err(), OpenError::Missing { .. }));
}

#[test]
fn what_is_left_of_an_unfinished_making_does_not_get_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("journal.redb.new"), b"torn").unwrap();
    drop(Journal::create(dir.path(), &base(), &CreateOptions::default()).unwrap());
    assert!(!dir.path().join("journal.redb.new").exists());
    Journal::open(dir.path()).unwrap();
}

#[test]
fn what_is_not_there_is_not_made_by_opening() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("nowhere"), dir.path().to_owned()] {
        assert!(matches!(Journal::open(&path).unwrap_err(), OpenError::Missing { dir } if dir == path));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_foreign_file_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    let file = plane.join("journal.redb");
    for bytes in [&b""[..], b"SQLite format 3\0", b"redb"] {
        fs::write(&file, bytes).unwrap();
        assert!(matches!(Journal::open(&plane).unwrap_err(), OpenError::Foreign { .. }));
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
    // Another program's redb file.
    fs::remove_file(&file).unwrap();
    drop(redb::Database::create(&file).unwrap());
    assert!(matches!(Journal::open(&plane).unwrap_err(), OpenError::Foreign { .. }));
}

#[test]
fn another_version_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    let engine = RedbEngine::open(&plane.join("journal.redb"), 1 << 20, false).unwrap();
    let snapshot = engine.snapshot().unwrap();
    let mut tx = Overlay::over(&*snapshot);
    tx.put(Space::of(&Scope::Plane, Table::Meta).key(&[b"format"]), b"runseal-journal-v9".to_vec());
    engine.commit(tx.into_writes()).unwrap();
    drop((snapshot, engine));
    let refused = Journal::open(&plane).unwrap_err();
    assert!(
        matches!(&refused, OpenError::OtherVersion { found, .. } if found == "runseal-journal-v9"),
        "{refused}"
    );
}

#[test]
fn a_journal_is_open_once_also_within_one_process() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    let first = Journal::open(&plane).unwrap();
    assert!(matches!(Journal::open(&plane).unwrap_err(), OpenError::InUse { .. }));
    // The refused attempt has not let go of the first one's lock.
    assert!(matches!(Journal::open(&plane).unwrap_err(), OpenError::InUse { .. }));
    let clone = first.clone();
    drop(first);
    assert!(matches!(Journal::open(&plane).unwrap_err(), OpenError::InUse { .. }));
    drop(clone);
    Journal::open(&plane).unwrap();
}

#[cfg(unix)]
#[test]
fn keys_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    let database = fs::metadata(plane.join("journal.redb")).unwrap();
    assert_eq!(database.permissions().mode() & 0o777, 0o600, "nor are records for anybody else");
    for name in ["master.key", "record.key"] {
        let key = plane.join(name);
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        for mode in [0o640, 0o604, 0o660, 0o777] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            let refused = Journal::open(&plane).unwrap_err();
            assert!(
                matches!(refused, OpenError::Key(KeyFileError::Exposed { mode: found, .. }) if found == mode)
            );
        }
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    }
    Journal::open(&plane).unwrap();
}

#[test]
fn a_missing_or_wrong_key_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    let other = dir.path().join("other");
    drop(Journal::create(&other, &base(), &CreateOptions { sign_records: true }).unwrap());
    for name in ["master.key", "record.key"] {
        let aside = dir.path().join("aside");
        fs::copy(plane.join(name), &aside).unwrap();
        fs::copy(other.join(name), plane.join(name)).unwrap();
        assert!(matches!(Journal::open(&plane).unwrap_err(), OpenError::OtherKey { .. }), "{name}");
        fs::write(plane.join(name), b"no key\n").unwrap();
        let refused = Journal::open(&plane).unwrap_err();
        assert!(matches!(refused, OpenError::Key(KeyFileError::Malformed { .. })), "{refused}");
        assert!(!refused.to_string().contains("no key\n"), "what a key file holds is not repeated");
        fs::remove_file(plane.join(name)).unwrap();
        // Without the record key records would go unsigned in silence.
        assert!(
            matches!(Journal::open(&plane).unwrap_err(), OpenError::Key(KeyFileError::Io { .. })),
            "{name}"
        );
        fs::rename(&aside, plane.join(name)).unwrap();
    }
    Journal::open(&plane).unwrap();
}

/// Copies a plane as a process leaves it that is killed right now, and whose database needs no repair.
fn left_behind(plane: &Path, dir: &Path) -> std::path::PathBuf {
    let left = dir.join("left");
    fs::create_dir_all(&left).unwrap();
    // The log first: what reaches the tables meanwhile is in both.
    for name in ["journal.wal", "journal.redb", "master.key", "record.key"] {
        let _ = fs::remove_file(left.join(name));
        match fs::copy(plane.join(name), left.join(name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
    let repaired = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let noticed = std::sync::Arc::clone(&repaired);
    let mut builder = redb::Builder::new();
    builder.set_repair_callback(move |_| noticed.store(true, std::sync::atomic::Ordering::SeqCst));
    drop(builder.open(left.join("journal.redb")).unwrap());
    assert!(!repaired.load(std::sync::atomic::Ordering::SeqCst), "the whole file had to be read");
    left
}

#[test]
fn a_journal_killed_at_work_opens_with_all_it_acknowledged_and_without_reading_its_whole_file() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    let journal = Journal::open(&plane).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    assert!(!plane.join("journal.wal").exists(), "a journal that is not at work needs no log");
    for number in 1..=40 {
        acme.append_once(&run("r"), "w", vec![note(&number.to_string())], false).unwrap();
        if number % 10 == 0 {
            let left = left_behind(&plane, dir.path());
            assert_eq!(left.join("journal.wal").exists(), number > 8);
            let survivor = Journal::open(&left).unwrap();
            assert!(!left.join("journal.wal").exists(), "what it held is in the tables");
            let survivor = survivor.tenant(&tenant("acme"));
            assert_eq!(survivor.run(&run("r")).unwrap().unwrap().records, number);
            assert_eq!(survivor.check(&mut |_| {}).unwrap().contradiction, None);
        }
    }
    drop((journal, acme));
    assert!(!plane.join("journal.wal").exists(), "closing leaves everything in the database");
    let acme = Journal::open(&plane).unwrap().tenant(&tenant("acme"));
    assert_eq!(acme.run(&run("r")).unwrap().unwrap().records, 40);
}

#[test]
fn an_older_database_beside_the_log_of_a_newer_one_is_refused_and_neither_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    seal(&plane, "before");
    fs::copy(plane.join("journal.redb"), dir.path().join("backup")).unwrap();
    let journal = Journal::open(&plane).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    for number in 0..20 {
        acme.append_once(&run("r"), "w", vec![note(&number.to_string())], false).unwrap();
    }
    let left = left_behind(&plane, dir.path());
    drop((journal, acme));
    let (database, log) = (left.join("journal.redb"), left.join("journal.wal"));
    let (newer, logged) = (fs::read(&database).unwrap(), fs::read(&log).unwrap());
    let refusal = || match Journal::open(&left).unwrap_err() {
        OpenError::WriteAheadLog { path, fault } if path == log => fault,
        other => panic!("{other}"),
    };

    fs::copy(dir.path().join("backup"), &database).unwrap();
    let refused = refusal();
    assert!(matches!(refused, AheadFault::OtherState), "{refused}");
    assert!(refused.to_string().contains("backup"), "the way out is explained: {refused}");
    assert_eq!(fs::read(&log).unwrap(), logged);

    // The log alone is gone, or is something else, or of another length.
    fs::write(&database, &newer).unwrap();
    fs::remove_file(&log).unwrap();
    assert!(matches!(refusal(), AheadFault::Missing));
    fs::write(&log, b"something else").unwrap();
    assert!(matches!(refusal(), AheadFault::Foreign));
    fs::write(&log, &logged[..logged.len() - 1]).unwrap();
    assert!(matches!(refusal(), AheadFault::Length { .. }));

    // All is well once both are what they were; and the backup by itself is a journal, which signs nothing.
    fs::write(&log, &logged).unwrap();
    let acme = Journal::open(&left).unwrap().tenant(&tenant("acme"));
    assert_eq!(acme.run(&run("r")).unwrap().unwrap().records, 20);
}

#[test]
fn records_are_signed_where_the_plane_says_so_and_a_stripped_signature_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    seal(&plane, "r");
    let journal = Journal::open(&plane).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    let records = acme.read(&run("r"), 1, 9).unwrap();
    let signer = fs::read_to_string(plane.join("record.key")).unwrap();
    let key_id = signer.split('+').nth(3).unwrap();
    assert!(records.iter().all(|record| record.signature.unwrap().key_id.to_string() == key_id));
    assert_eq!(acme.check(&mut |_| {}).unwrap().contradiction, None);
    let first = &records[0];
    let length = u32::try_from(first.raw.len()).unwrap().to_le_bytes();
    let row = [&first.prev.as_bytes()[..], first.hash.as_bytes(), &[0], &length, &first.raw].concat();
    let key = Space::of(&Scope::Tenant(tenant("acme")), Table::Records).key(&[b"r\0", &1u64.to_be_bytes()]);
    let planted = journal.shared().run(&Scope::Plane, 0, move |tx, _| -> Result<(), crate::StoreError> {
        tx.put(key.clone(), row.clone());
        Ok(())
    });
    planted.unwrap();
    let found = acme.check(&mut |_| {}).unwrap().contradiction.unwrap();
    assert!(matches!(found.fault, Fault::Contradiction { what: "its signature", .. }), "{found}");
}

#[test]
fn a_database_restored_from_a_backup_signs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    seal(&plane, "r1");
    fs::copy(plane.join("journal.redb"), dir.path().join("backup")).unwrap();
    seal(&plane, "r2");
    fs::copy(dir.path().join("backup"), plane.join("journal.redb")).unwrap();
    let journal = Journal::open(&plane).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    let refused = acme.sign_checkpoint().unwrap_err();
    let CheckpointError::NotAnExtension { by: Remembered::File(path), signed_size: 2, size: 1, .. } =
        &refused
    else {
        panic!("{refused}")
    };
    assert_eq!(*path, plane.join("signed").join("acme"));
    assert!(refused.to_string().contains("backup"), "the way out is explained");
    // Nor once it has grown past what was signed.
    for name in ["r3", "r4", "r5"] {
        acme.append_once(&run(name), "w", vec![note(name), concluded("succeeded")], true).unwrap();
    }
    assert!(acme.sign_checkpoint().is_err());
    // Another tenant's log has nothing to do with it.
    journal.tenant(&tenant("globex")).sign_checkpoint().unwrap();
    // The database is sound in itself; that it is an old one, the check says too.
    drop((journal, acme));
    #[cfg(feature = "cli")]
    assert_eq!(super::check_command(&plane), std::process::ExitCode::from(1));
}

#[test]
fn a_memory_that_nobody_signed_is_damage_and_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let plane = made(dir.path());
    seal(&plane, "r1");
    let file = plane.join("signed").join("acme");
    let note = fs::read_to_string(&file).unwrap();
    let journal = Journal::open(&plane).unwrap();
    let acme = journal.tenant(&tenant("acme"));
    for damaged in [note.replace("\n1\n", "\n0\n"), String::new(), note.replace("acme", "acne")] {
        fs::write(&file, damaged).unwrap();
        assert!(matches!(acme.sign_checkpoint().unwrap_err(), CheckpointError::Store(_)));
    }
    fs::write(&file, &note).unwrap();
    assert_eq!(acme.sign_checkpoint().unwrap().to_string(), note);
    // Lost altogether, it is written again from the database's memory.
    fs::remove_file(&file).unwrap();
    assert_eq!(acme.sign_checkpoint().unwrap().to_string(), note);
    assert_eq!(fs::read_to_string(&file).unwrap(), note);
}
