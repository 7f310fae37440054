//! Files of steps, built here byte by byte from the words of the format, never with the crate's own writer.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, Instant};

use runseal_evidence::name::{RunId, TenantId};
use runseal_evidence::steps::{
    Digested, End, FrameFault, HEADER_BYTES, Header, HeaderFault, PAYLOAD_BYTES_MAX, RunSteps, Scan,
    Standing, StepDigest, StepFault, StepsAudit, StepsCommitment, StepsFault, StoreHead,
};

mod step_file;

use step_file::{Fields, File, ID, PREFIX_BYTES};

fn payload(run: &str, path: &str, value: &[u8]) -> Vec<u8> {
    Fields { run, path, value, ..Fields::default() }.payload()
}

fn file_of(count: usize) -> File {
    (0..count).fold(File::new(ID), |file, n| {
        file.with(&payload("run-1", &format!("step-{n}"), format!("value {n}").as_bytes()))
    })
}

fn scan_in(chunk: usize, bytes: &[u8]) -> Result<(Vec<String>, End), StepsFault> {
    let (mut scan, mut values) = (Scan::new(), Vec::new());
    for chunk in bytes.chunks(chunk) {
        scan.push(chunk, |frame| {
            values.push(String::from_utf8_lossy(frame.step.value()).into_owned());
            Ok(())
        })?;
    }
    Ok((values, scan.finish()?))
}

fn scan(bytes: &[u8]) -> Result<(Vec<String>, End), StepsFault> {
    scan_in(1 << 16, bytes)
}

fn frame_fault(bytes: &[u8]) -> (u64, FrameFault) {
    match scan(bytes) {
        Err(StepsFault::Frame { number, fault, .. }) => (number, fault),
        other => panic!("a damaged frame should be named, not {other:?}"),
    }
}

#[test]
fn a_file_reads_back_in_chunks_of_any_size() {
    let file = file_of(3);
    for chunk in [1, 2, 7, 131, 1 << 16] {
        let (values, end) = scan_in(chunk, &file.bytes).unwrap();
        assert_eq!(values, ["value 0", "value 1", "value 2"]);
        assert_eq!((end.frames, end.bytes, end.torn_bytes), (3, file.bytes.len() as u64, 0));
        assert_eq!(end.head, StoreHead::from_bytes(file.head));
        assert_eq!(end.id.as_bytes(), ID);
    }
    assert_eq!(scan(&File::new(ID).bytes).unwrap().1.frames, 0);
}

#[test]
fn another_file_another_version_and_an_unfinished_header_are_three_refusals() {
    let header = |bytes: &[u8]| match scan(bytes) {
        Err(StepsFault::Header(fault)) => fault,
        other => panic!("{other:?}"),
    };
    let file = file_of(1).bytes;
    for foreign in [&b"{\"kind\":1}"[..], b"runseal steps\n\x01", b"SQLite format 3\0", &[0xff; 64]] {
        assert_eq!(header(foreign), HeaderFault::Foreign);
    }
    let mut newer = file.clone();
    newer[15] = 2;
    assert_eq!(header(&newer), HeaderFault::Version { found: 2 });
    assert_eq!(header(&newer[..16]), HeaderFault::Version { found: 2 });
    for bytes in 0..32 {
        assert_eq!(header(&file[..bytes]), HeaderFault::Torn { bytes });
        assert_eq!(header(&vec![0; bytes]), HeaderFault::Torn { bytes });
    }
}

#[test]
fn a_frame_of_another_store_or_another_place_is_refused() {
    let mut elsewhere = file_of(1).bytes;
    elsewhere[20] ^= 1;
    assert!(matches!(frame_fault(&elsewhere), (1, FrameFault::Head { .. })));
    let file = file_of(3);
    let frame = |n: usize| &file.bytes[file.starts[n]..file.starts[n + 1]];
    let swapped = [&file.bytes[..32], frame(1), frame(0), frame(2)].concat();
    assert!(matches!(frame_fault(&swapped), (1, FrameFault::Head { .. })));
    let without_second = [&file.bytes[..32], frame(0), frame(2)].concat();
    assert!(matches!(frame_fault(&without_second), (2, FrameFault::Head { .. })));
}

#[test]
fn every_byte_of_every_frame_is_covered() {
    let file = file_of(3);
    for at in 32..file.bytes.len() {
        let mut damaged = file.bytes.clone();
        damaged[at] ^= 0x01;
        let number = file.starts.iter().filter(|start| **start <= at).count() as u64;
        assert_eq!(frame_fault(&damaged).0, number, "byte {at}");
    }
}

#[test]
fn a_payload_is_judged_after_its_head() {
    // A well-chained frame whose payload states another length.
    let mut narrow = payload("run-1", "step-0", b"value");
    narrow.remove(40);
    assert!(matches!(
        frame_fault(&File::new(ID).with(&narrow).bytes),
        (1, FrameFault::Payload(StepFault::Length { .. }))
    ));
    let bad_name = payload("RUN", "step-0", b"value");
    assert!(matches!(
        frame_fault(&File::new(ID).with(&bad_name).bytes),
        (1, FrameFault::Payload(StepFault::Name(_)))
    ));
}

#[test]
fn payloads_hashed_ahead_come_to_the_same() {
    let file = file_of(3);
    let (header, frames) = (Header::parse(&file.bytes).unwrap(), file.bytes[HEADER_BYTES..].to_vec());
    let first = PREFIX_BYTES + payload("run-1", "step-0", b"value 0").len() + 32;
    // Cut anywhere, what is not whole starts the next part.
    for cut in 0..frames.len() {
        let digested = Digested::new(frames[..cut].to_vec());
        let mut next = digested.rest().to_vec();
        let missing = if next.len() < PREFIX_BYTES { 0 } else { first - next.len() };
        assert_eq!((digested.stopped(), Digested::missing(&next)), (false, missing), "{cut}");
        next.extend_from_slice(&frames[cut..]);
        let (mut scan, mut seen) = (Scan::behind(header), Vec::new());
        for part in [digested, Digested::new(next)] {
            scan.push_digested(&part, |frame| {
                seen.push(frame.step.path().to_owned());
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(seen, ["step-0", "step-1", "step-2"], "{cut}");
        assert_eq!(scan.finish().unwrap().head, StoreHead::from_bytes(file.head));
    }
    // Inside a frame nothing stands where the parts say: the frames are read as the bytes they are.
    let mut scan = Scan::new();
    scan.push(&file.bytes[..HEADER_BYTES + 9], |_| Ok(())).unwrap();
    assert!(scan.push_digested(&Digested::new(frames.clone()), |_| Ok(())).is_err());
    // A digest is that of the bytes it was made with.
    let mut altered = frames;
    altered[first - 33] ^= 1;
    let refused = Scan::behind(header).push_digested(&Digested::new(altered), |_| Ok(()));
    assert!(matches!(refused, Err(StepsFault::Frame { number: 1, fault: FrameFault::Head { .. }, .. })));
    assert!(Digested::new(vec![0xff; 40]).stopped());
}

#[test]
fn a_cut_leaves_the_frames_before_it() {
    let file = file_of(3);
    for cut in 32..=file.bytes.len() {
        let whole = file.starts.iter().rposition(|start| *start <= cut).unwrap();
        let (values, end) = scan(&file.bytes[..cut]).unwrap();
        assert_eq!(values.len(), whole, "cut at {cut}");
        assert_eq!(end.bytes, file.starts[whole] as u64);
        assert_eq!(end.torn_bytes, (cut - file.starts[whole]) as u64);
    }
}

#[test]
fn a_last_frame_with_a_longer_length_is_damage_and_not_a_torn_write() {
    for by in (1..=40).chain([41, 100, 4096, 1 << 20]) {
        let (number, fault) = frame_fault(&file_of(3).lengthened(3, by));
        assert_eq!(number, 3, "+{by}");
        let FrameFault::LengthLies { stated, actual } = fault else { panic!("+{by}: {fault:?}") };
        assert_eq!(i64::from(stated) - i64::from(actual), by);
    }
}

#[test]
fn a_middle_frame_with_another_length_is_damage() {
    let file = file_of(5);
    let to_the_end = i64::try_from(file.bytes.len() - file.starts[1]).unwrap();
    for by in (-8..=40).chain([100, to_the_end - 300, to_the_end, to_the_end + 1, 1 << 20]) {
        if by != 0 {
            assert_eq!(frame_fault(&file_of(5).lengthened(2, by)).0, 2, "{by:+}");
        }
    }
}

#[test]
fn a_length_that_no_payload_has_is_damage() {
    for stated in [0, 1, 94, u32::try_from(PAYLOAD_BYTES_MAX).unwrap() + 1, u32::MAX] {
        let mut file = file_of(2);
        let start = file.starts[1];
        file.bytes[start..start + PREFIX_BYTES].copy_from_slice(&stated.to_be_bytes());
        assert_eq!(frame_fault(&file.bytes), (2, FrameFault::Length { stated }));
    }
}

#[test]
fn a_frame_damaged_beyond_reading_is_not_trimmed_while_one_behind_it_is_intact() {
    // Prefix and payload of frame 2 both damaged, so that nothing of it authenticates.
    let file = file_of(4);
    let mut bytes = file.bytes.clone();
    let start = file.starts[1];
    bytes[start..start + PREFIX_BYTES].copy_from_slice(&0x000f_0000_u32.to_be_bytes());
    bytes[start + 10] ^= 1;
    let (number, fault) = frame_fault(&bytes);
    assert_eq!((number, fault), (2, FrameFault::IntactBehind { intact_at: file.starts[2] as u64 }));
    // Also where the intact one is followed by a torn one.
    bytes.truncate(file.starts[3] + 50);
    assert!(matches!(frame_fault(&bytes), (2, FrameFault::IntactBehind { .. })));
    // With the head of frame 2 damaged instead of its payload, frame 3 follows from what frame 2 implies.
    let mut bytes = file.bytes[..file.starts[3]].to_vec();
    bytes[start..start + PREFIX_BYTES].copy_from_slice(&0x000f_0000_u32.to_be_bytes());
    bytes[file.starts[2] - 1] ^= 1;
    assert!(matches!(frame_fault(&bytes), (2, FrameFault::IntactBehind { .. })));
}

#[test]
fn a_torn_value_that_holds_step_files_is_torn() {
    // A step whose value is the very file it is appended to, and one of another store.
    let file = file_of(4);
    let mut value = file.bytes.clone();
    let other_store = file.bytes.iter().enumerate().map(|(at, byte)| if at == 20 { byte ^ 1 } else { *byte });
    value.extend(other_store);
    let longer = file_of(4).with(&payload("run-1", "backup", &value));
    for cut in (file.bytes.len() + 1..longer.bytes.len()).step_by(7) {
        let (values, end) = scan(&longer.bytes[..cut]).unwrap();
        assert_eq!((values.len(), end.bytes), (4, file.bytes.len() as u64), "cut at {cut}");
    }
}

#[test]
fn noise_after_the_last_frame_is_decided_in_time_linear_in_its_length() {
    let noise = |bytes: usize| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut noise = u32::try_from(PAYLOAD_BYTES_MAX).unwrap().to_be_bytes().to_vec();
        while noise.len() < bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.extend(state.to_be_bytes());
        }
        noise
    };
    let bytes = [file_of(2).bytes, noise(8 << 20)].concat();
    let started = Instant::now();
    assert_eq!(scan(&bytes).unwrap().1.frames, 2);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?} for 8 MiB", started.elapsed());
}

/// At every 128th byte the start of what is laid out as a frame to the end of the file: if each were hashed,
/// the work would be quadratic.
#[test]
fn the_worst_tail_is_refused_in_bounded_time() {
    let end = 8 << 20;
    let mut tail = vec![0_u8; end];
    tail[..4].copy_from_slice(&u32::try_from(PAYLOAD_BYTES_MAX).unwrap().to_be_bytes());
    for start in (256..end - 256).step_by(128) {
        let value = end - start - 4 - 32 - 95;
        tail[start..start + PREFIX_BYTES].copy_from_slice(&u32::try_from(95 + value).unwrap().to_be_bytes());
        tail[start + 80..start + 84].copy_from_slice(&u32::try_from(value).unwrap().to_be_bytes());
        (0..5).for_each(|name| tail[start + 85 + 2 * name] = 1);
        tail[start + 94..start + 99].copy_from_slice(b"aaaaa");
    }
    let started = Instant::now();
    assert_eq!(frame_fault(&[file_of(2).bytes, tail].concat()), (3, FrameFault::Crowded));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?} for 8 MiB", started.elapsed());
}

#[test]
fn what_the_visitor_refuses_is_named_at_its_frame() {
    let file = file_of(3);
    let mut scan = Scan::new();
    let refused = scan.push(&file.bytes, |frame| match frame.number {
        2 => Err(FrameFault::Duplicate { key: *frame.step.key(), first_at: 32 }),
        _ => Ok(()),
    });
    let Err(StepsFault::Frame { number, at, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((number, at), (2, file.starts[1] as u64));
}

#[test]
fn the_steps_of_a_run_have_one_head_wherever_they_stand() {
    let of = |run, path| Fields { run, path, ..Fields::default() }.payload();
    let (first, other, second) = (of("run-1", "a"), of("run-2", "a"), of("run-1", "b"));
    let together = File::new(ID).with(&first).with(&other).with(&second);
    let alone = File::new(b"another store id").with(&first).with(&second);
    for file in [together, alone] {
        let mut steps = RunSteps::new(&TenantId::new("acme").unwrap(), &RunId::new("run-1").unwrap());
        let mut scan = Scan::new();
        scan.push(&file.bytes, |frame| {
            if frame.step.run() == "run-1" {
                steps.push(&frame.digest);
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(steps.count(), 2);
        let expected = step_file::run_head("acme", "run-1", &[first.clone(), second.clone()]);
        assert_eq!(steps.head().as_bytes(), &expected);
    }
}

/// What the file says of run-1, whose conclusion committed to four steps, and how many faults it has.
fn audited(file: &[u8]) -> (Vec<String>, usize) {
    let mut steps = RunSteps::new(&TenantId::new("acme").unwrap(), &RunId::new("run-1").unwrap());
    for n in 0..4 {
        let committed = payload("run-1", &format!("step-{n}"), format!("value {n}").as_bytes());
        steps.push(&StepDigest::from_bytes(step_file::digest(&committed)));
    }
    let mut audit = StepsAudit::new();
    file.chunks(100).for_each(|chunk| audit.push(chunk));
    let file = audit.finish();
    let commitment = StepsCommitment::from(&steps);
    let named = match file.hold(&TenantId::new("acme").unwrap(), &RunId::new("run-1").unwrap(), &commitment) {
        Standing::BorneOut => Vec::new(),
        Standing::Differs(differences) => differences.iter().map(ToString::to_string).collect(),
        Standing::NotReadable => vec!["not readable".to_owned()],
    };
    (named, file.faults.len())
}

#[test]
fn a_changed_removed_or_moved_step_is_named_with_and_without_fitting_heads() {
    let sound = file_of(4);
    assert_eq!(audited(&sound.bytes), (vec![], 0));
    let frame = |n: usize| &sound.bytes[sound.starts[n]..sound.starts[n + 1]];
    let of = |n: usize| payload("run-1", &format!("step-{n}"), format!("value {n}").as_bytes());
    let rebuilt =
        |order: &[Vec<u8>]| order.iter().fold(File::new(ID), |file, payload| file.with(payload)).bytes;

    // Bytes changed, heads left alone.
    let mut edited = sound.bytes.clone();
    edited[sound.starts[2] - 40] ^= 1;
    let changed = vec![r#"step 2 of 4 was changed ("step-1")"#.to_owned()];
    assert_eq!(audited(&edited), (changed.clone(), 1));
    // The same with every head made to fit: the file is sound, and the conclusion is not borne out.
    let forged = payload("run-1", "step-1", b"another");
    assert_eq!(audited(&rebuilt(&[of(0), forged, of(2), of(3)])), (changed, 0));

    let removed = vec!["step 3 of 4 was removed".to_owned()];
    assert_eq!(audited(&[&sound.bytes[..32], frame(0), frame(1), frame(3)].concat()), (removed.clone(), 1));
    assert_eq!(audited(&rebuilt(&[of(0), of(1), of(3)])), (removed, 0));
    let moved = vec!["steps 1 to 2 of 4 stand in another order".to_owned()];
    assert_eq!(audited(&[&sound.bytes[..32], frame(1), frame(0), frame(2), frame(3)].concat()).0, moved);
    assert_eq!(audited(&rebuilt(&[of(1), of(0), of(2), of(3)])), (moved, 0));
    let more = payload("run-1", "step-4", b"");
    let added = vec![r#"step 5 as found was not among the 4 steps of the run ("step-4")"#.to_owned()];
    assert_eq!(audited(&rebuilt(&[of(0), of(1), of(2), of(3), more])), (added, 0));
    // All of them gone.
    assert_eq!(audited(&File::new(ID).bytes).0.len(), 4);
}

#[test]
fn an_audit_says_where_it_had_to_stop() {
    let file = file_of(4);
    let mut bytes = file.bytes.clone();
    bytes[file.starts[1]] = 0xff;
    let mut audit = StepsAudit::new();
    audit.push(&bytes);
    let audited = audit.finish();
    assert!(audited.cut_short);
    assert_eq!(self::audited(&bytes), (vec!["not readable".to_owned()], 1));
    assert_eq!((audited.steps, audited.faults.len()), (1, 1));
    let mut audit = StepsAudit::new();
    audit.push(b"{}");
    assert!(audit.finish().header_fault().is_some());
    let mut audit = StepsAudit::new();
    audit.push(&file.bytes[..file.bytes.len() - 1]);
    let torn = audit.finish();
    assert_eq!((torn.cut_short, torn.steps), (false, 3));
    assert_eq!(torn.torn_bytes, (file.starts[4] - file.starts[3] - 1) as u64);
}
