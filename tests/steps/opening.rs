//! What is opened, what is refused, and what opening leaves as it was.

use std::{fs, io};

use runseal::Disk;
use runseal::evidence::steps::HeaderFault;
use runseal::steps::{
    DeviceCall, FrameFault, OpenError, Recorded, StepError, StepLimits, StepStore, StepsFault,
};

use crate::step_file::{Fields, File, ID};
use crate::{Device, definition, key, open, run, step, tenant, value_of};

fn refusal(device: &Device) -> OpenError {
    let before = device.bytes();
    let error = StepStore::open_on(device.clone(), StepLimits::default()).unwrap_err();
    assert_eq!(device.bytes(), before, "a refusal changes no byte");
    error
}

fn frame_fault(file: &[u8]) -> (u64, FrameFault) {
    match refusal(&Device::holding(file)) {
        OpenError::Fault(StepsFault::Frame { number, fault, .. }) => (number, fault),
        error => panic!("{error}"),
    }
}

#[test]
fn a_file_is_laid_out_as_documented() {
    let device = Device::default();
    let store = open(&device);
    assert!(store.opening().header_written);
    let fields = [
        Fields { run: "run-1", path: "charge", value: b"paid", ..Fields::default() },
        Fields { run: "run-2", path: "charge", value: b"", ..Fields::default() },
        Fields { run: "run-1", path: "mail", value: &[0xff; 300], ..Fields::default() },
    ];
    for Fields { run, path, value, .. } in fields {
        assert_eq!(store.append(step(run, path, value)).wait().unwrap(), Recorded::Now);
    }
    let file =
        fields.iter().fold(File::new(store.id().as_bytes()), |file, fields| file.with(&fields.payload()));
    assert_eq!(device.durable(), file.bytes);
    assert_eq!(store.committed_bytes(), file.bytes.len() as u64);
    // And a file written elsewhere is read.
    let store = open(&Device::holding(&file.bytes));
    assert_eq!((store.opening().steps, store.opening().torn_bytes), (3, 0));
    assert_eq!(value_of(&store, "run-1", "mail"), Some(vec![0xff; 300]));
}

/// Reading and checking are two threads' work in a file of more than 256 KiB.
#[test]
fn a_large_file_is_read_and_judged_as_a_small_one() {
    let values = [300, 5000, 3 << 20, 90_000, 0, 400_000, 300];
    let mut file = File::new(ID);
    let mut ends = Vec::new();
    for number in 0..40 {
        let (path, value) =
            (format!("step-{number}"), vec![number; values[usize::from(number) % values.len()]]);
        file = file.with(&Fields { run: "run-1", path: &path, value: &value, ..Fields::default() }.payload());
        ends.push(file.bytes.len());
    }
    let device = Device::holding(&file.bytes);
    let store = open(&device);
    assert_eq!((store.opening().steps, store.committed_bytes()), (40, file.bytes.len() as u64));
    assert_eq!(value_of(&store, "run-1", "step-16"), Some(vec![16; 3 << 20]));
    drop(store);
    // Damage in any frame is named, and nothing is changed.
    for frame in [0, 2, 17, 30, 38] {
        let end = ends[frame];
        let mut damaged = file.bytes.clone();
        damaged[end - 40] ^= 1;
        let (number, fault) = frame_fault(&damaged);
        assert_eq!(number, frame as u64 + 1);
        assert!(matches!(fault, FrameFault::Head { .. }), "{fault}");
        let mut impossible = file.bytes.clone();
        impossible[end] = 0xff;
        let (number, fault) = frame_fault(&impossible);
        assert_eq!(number, frame as u64 + 2);
        assert!(matches!(fault, FrameFault::Length { .. }), "{fault}");
    }
    // A cut leaves the frames before it.
    for (frame, cut) in [(2, 1_000_000), (30, 2_000_000), (38, 77), (39, 1)] {
        let device = Device::holding(&file.bytes[..ends[frame] - cut]);
        let store = open(&device);
        let torn = (ends[frame] - cut - ends[frame - 1]) as u64;
        assert_eq!((store.opening().steps, store.opening().torn_bytes), (frame as u64, torn), "{frame}");
        assert_eq!(device.durable().len(), ends[frame - 1]);
    }
}

#[test]
fn what_is_no_step_file_and_what_is_another_version_are_refused_apart() {
    for foreign in [&b"{}"[..], b"SQLite format 3\0and more", &[0; 33], &[0xaa; 4096]] {
        let error = refusal(&Device::holding(foreign));
        assert!(matches!(error, OpenError::Fault(StepsFault::Header(HeaderFault::Foreign))), "{error}");
    }
    let mut newer = File::new(ID).bytes;
    newer[15] = 2;
    let error = refusal(&Device::holding(&newer));
    assert_eq!(error.to_string(), "it is a file of steps in version 2; this build reads version 1");
}

#[test]
fn a_header_cut_short_when_the_file_was_made_is_finished() {
    let header = File::new(ID).bytes;
    for bytes in 0..header.len() {
        for start in [header[..bytes].to_vec(), vec![0; bytes]] {
            let device = Device::holding(&start);
            let store = open(&device);
            assert!(store.opening().header_written, "{bytes}");
            store.append(step("run-1", "charge", "paid")).wait().unwrap();
            drop(store);
            let store = open(&device);
            assert!(!store.opening().header_written);
            assert_eq!(value_of(&store, "run-1", "charge").as_deref(), Some(&b"paid"[..]));
        }
    }
}

#[test]
fn one_handle_at_a_time_has_a_file_open() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.steps");
    let first = StepStore::open(&path, StepLimits::default()).unwrap();
    let second = StepStore::open(&path, StepLimits::default());
    assert!(matches!(second, Err(OpenError::InUse { .. })), "{second:?}");
    let clone = first.clone();
    drop(first);
    assert!(StepStore::open(&path, StepLimits::default()).is_err(), "a clone still has it");
    drop(clone.append(step("run-1", "charge", "paid")));
    drop(clone);
    // Released only once what waited was carried out.
    let store = StepStore::open(&path, StepLimits::default()).unwrap();
    assert_eq!(value_of(&store, "run-1", "charge").as_deref(), Some(&b"paid"[..]));
}

#[cfg(unix)]
#[test]
fn a_file_is_its_owners_alone_and_in_a_directory_that_is_there() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let acme = tenant("acme");
    drop(StepStore::open_in(dir.path(), &acme, StepLimits::default()).unwrap());
    let mode = fs::metadata(dir.path().join("acme.steps")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let absent = StepStore::open_in(dir.path().join("absent"), &acme, StepLimits::default());
    assert!(matches!(absent, Err(OpenError::File { .. })), "{absent:?}");
}

#[test]
fn a_store_of_one_tenant_holds_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let (acme, other) = (tenant("acme"), tenant("other"));
    let store = StepStore::open_in(dir.path(), &acme, StepLimits::default()).unwrap();
    let mut foreign = step("run-1", "charge", "paid");
    foreign.tenant = other.clone();
    let refused = store.append(foreign).wait();
    assert!(matches!(refused, Err(StepError::ForeignTenant { .. })), "{refused:?}");
    let refused = store.run(other.clone(), run("run-9"), definition());
    assert!(matches!(refused, Err(StepError::ForeignTenant { .. })), "{refused:?}");
    store.append(step("run-1", "charge", "paid")).wait().unwrap();
    drop(store);
    fs::rename(dir.path().join("acme.steps"), dir.path().join("other.steps")).unwrap();
    let error = StepStore::open_in(dir.path(), &other, StepLimits::default()).unwrap_err();
    let OpenError::Fault(StepsFault::Frame { number: 1, fault: FrameFault::Join(_), .. }) = error else {
        panic!("{error}")
    };
}

#[test]
fn the_steps_of_a_run_in_a_file_agree_on_tenant_and_definition() {
    let base = Fields { path: "first", ..Fields::default() };
    let fits = Fields { path: "second", ..base };
    for (other, says) in [
        (Fields { tenant: "evil", ..fits }, "run run-1 does not belong to tenant evil"),
        (Fields { revision: 99, ..fits }, "revision is 3 as recorded, 99 as offered"),
        (Fields { input: [0; 32], ..fits }, "input's digest"),
        (Fields { steps: 8, ..fits }, "7 steps as recorded, 8 as offered"),
        (Fields { codec: "cbor", ..fits }, "codec is json as recorded, cbor as offered"),
        (Fields { definition: "other", ..fits }, "definition is refund as recorded, other as offered"),
    ] {
        let (number, fault) = frame_fault(&File::new(ID).with(&base.payload()).with(&other.payload()).bytes);
        assert_eq!(number, 2);
        assert!(fault.to_string().contains(says), "{fault}");
    }
    let other_run = Fields { tenant: "evil", run: "run-2", revision: 99, ..base };
    open(&Device::holding(&File::new(ID).with(&base.payload()).with(&other_run.payload()).bytes));
}

#[test]
fn a_key_stands_once_in_a_run() {
    let first = Fields { value: b"one", ..Fields::default() };
    let file = File::new(ID).with(&first.payload());
    for value in [b"one", b"two"] {
        let again = Fields { value, ..first };
        let file = File::new(ID).with(&first.payload()).with(&again.payload());
        let (number, fault) = frame_fault(&file.bytes);
        assert_eq!((number, fault), (2, FrameFault::Duplicate { key: key("charge"), first_at: 32 }));
    }
    // Also where frames between and behind, and damage, follow it.
    let other = |path| Fields { path, ..first }.payload();
    let file_of_six = File::new(ID)
        .with(&Fields { run: "run-2", ..first }.payload())
        .with(&first.payload())
        .with(&other("between"))
        .with(&first.payload())
        .with(&other("between"))
        .with(&other("last"));
    let mut damaged = file_of_six.bytes.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for bytes in [&file_of_six.bytes, &damaged] {
        let (number, fault) = frame_fault(bytes);
        let first_at = file_of_six.starts[1] as u64;
        assert_eq!((number, fault), (4, FrameFault::Duplicate { key: key("charge"), first_at }));
    }
    let in_another_run = Fields { run: "run-2", ..first };
    open(&Device::holding(&file.with(&in_another_run.payload()).bytes));
}

#[test]
fn a_device_that_cannot_be_read_is_not_a_torn_file() {
    let bytes = File::new(ID).with(&Fields::default().payload()).bytes;
    for call in [DeviceCall::Read, DeviceCall::Size, DeviceCall::Sync] {
        let device = Device::holding(&bytes[..bytes.len() - 1]);
        device.fail(call);
        let error = StepStore::open_on(device.clone(), StepLimits::default()).unwrap_err();
        let OpenError::Device { call: failed, .. } = error else { panic!("{error}") };
        assert_eq!(failed, call);
    }
    // Nor is one that ends before the size it gave.
    let device = Device::holding(&bytes);
    let error = StepStore::open_on(Short(device.clone()), StepLimits::default()).unwrap_err();
    assert!(matches!(error, OpenError::Device { call: DeviceCall::Read, .. }), "{error}");
    assert_eq!(device.bytes(), bytes);
}

/// A device that gives itself more bytes than it has.
struct Short(Device);
impl Disk for Short {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.size()? + 50)
    }
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.read_at(buffer, at)
    }
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.0.write_at(bytes, at)
    }
    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.truncate(size)
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}
