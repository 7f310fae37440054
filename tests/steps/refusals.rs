//! Refusals keep their type, and harm nobody but the one they are for.

use runseal::evidence::name::{CodecId, DefinitionName, StepPath};
use runseal::steps::{
    Definition, DeviceCall, Drift, InputDigest, Recorded, StepError, StepFailure, StepStore,
};

use crate::{Device, definition, key, open, run, step, tenant, value_of};

fn store_with_a_step() -> (Device, StepStore) {
    let device = Device::default();
    let store = open(&device);
    store.append(step("run-1", "charge", "paid")).wait().unwrap();
    (device, store)
}

/// Nobody else notices that something was refused.
fn still_works(device: &Device, store: &StepStore) {
    assert_eq!(store.append(step("run-8", "next", "")).wait().unwrap(), Recorded::Now);
    assert_eq!(open(&Device::holding(&device.durable())).opening().steps, store_steps(store));
}

fn store_steps(store: &StepStore) -> u64 {
    ["run-1", "run-8"].iter().map(|name| store.step_count(&tenant("acme"), &run(name)).unwrap()).sum()
}

#[test]
fn another_tenants_run_is_refused_when_read_and_when_appended_to() {
    let (device, store) = store_with_a_step();
    let evil = tenant("evil");
    let mut foreign = step("run-1", "mail", "");
    foreign.tenant = evil.clone();
    let before = device.bytes();
    let run_1 = run("run-1");
    let answers = [
        store.append(foreign).wait().map(|_| ()),
        store.lookup(&evil, &run_1, &key("charge")).map(|_| ()),
        store.lookup(&evil, &run_1, &key("absent")).map(|_| ()),
        store.step_count(&evil, &run_1).map(|_| ()),
        store.definition_of(&evil, &run_1).map(|_| ()),
        store.commitment(&evil, &run_1).map(|_| ()),
        store.check_definition(&evil, &run_1, &definition()),
        store.run(evil.clone(), run_1.clone(), definition()).map(|_| ()),
        store.resume(evil.clone(), run_1, definition()).map(|_| ()),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let Err(StepError::ForeignTenant { tenant, .. }) = answer else { panic!("{number}: {answer:?}") };
        assert_eq!(tenant, evil);
    }
    assert_eq!(device.bytes(), before);
    still_works(&device, &store);
}

/// Whether a drift is the one that was made.
type Names = fn(&Drift) -> bool;

#[test]
fn a_run_goes_on_under_its_definition_only() {
    let (device, store) = store_with_a_step();
    let base = definition();
    let axes: [(Definition, Names); 5] = [
        (Definition { name: DefinitionName::new("x").unwrap(), ..base.clone() }, |d| {
            matches!(d, Drift::Name { .. })
        }),
        (Definition { revision: 99, ..base.clone() }, |d| *d == Drift::Revision { recorded: 3, offered: 99 }),
        (Definition { input: InputDigest::of(b"x"), ..base.clone() }, |d| matches!(d, Drift::Input { .. })),
        (Definition { steps: 8, ..base.clone() }, |d| *d == Drift::StepCount { recorded: 7, offered: 8 }),
        (Definition { codec: CodecId::new("x").unwrap(), ..base }, |d| matches!(d, Drift::Codec { .. })),
    ];
    let before = device.bytes();
    for (drifted, is_named) in axes {
        let (acme, run_1) = (tenant("acme"), run("run-1"));
        let mut joining = step("run-1", "mail", "");
        joining.definition = drifted.clone();
        let mut repeating = step("run-1", "charge", "paid");
        repeating.definition = drifted.clone();
        let answers = [
            store.append(joining).wait().map(|_| ()),
            store.append(repeating).wait().map(|_| ()),
            store.check_definition(&acme, &run_1, &drifted),
            store.run(acme.clone(), run_1.clone(), drifted.clone()).map(|_| ()),
            store.resume(acme, run_1, drifted).map(|_| ()),
        ];
        for answer in answers {
            let Err(StepError::Drift { drift, .. }) = answer else { panic!("{answer:?}") };
            assert!(is_named(&drift), "{drift}");
        }
    }
    assert_eq!(device.bytes(), before);
    still_works(&device, &store);
}

#[test]
fn no_step_of_a_drifted_run_is_performed() {
    let device = Device::default();
    let store = open(&device);
    let acme = tenant("acme");
    // Taken before the run was known; by now another process has recorded a step under another definition.
    let early = store.run(acme, run("run-1"), Definition { revision: 99, ..definition() }).unwrap();
    store.append(step("run-1", "charge", "paid")).wait().unwrap();
    let path = StepPath::new("mail").unwrap();
    let failure = early.step(path, |_| -> Result<_, std::io::Error> { panic!("performed") });
    assert!(matches!(failure, Err(StepFailure::Store(StepError::Drift { .. }))), "{failure:?}");
}

#[test]
fn unknown_foreign_unreadable_and_absent_are_four_answers() {
    let (device, store) = store_with_a_step();
    let (acme, run_1) = (tenant("acme"), run("run-1"));
    assert!(matches!(store.lookup(&acme, &run_1, &key("absent")), Ok(None)));
    let unknown = store.lookup(&acme, &run("run-9"), &key("charge"));
    assert!(matches!(unknown, Err(StepError::UnknownRun { .. })), "{unknown:?}");
    let foreign = store.lookup(&tenant("evil"), &run_1, &key("charge"));
    assert!(matches!(foreign, Err(StepError::ForeignTenant { .. })), "{foreign:?}");
    device.fail(DeviceCall::Read);
    let unreadable = store.lookup(&acme, &run_1, &key("charge"));
    assert!(matches!(unreadable, Err(StepError::Read { at: 32, .. })), "{unreadable:?}");
    // Nor does a step whose predecessor cannot be read get recorded, or performed again.
    let conflicting = store.append(step("run-1", "charge", "other")).wait();
    assert!(matches!(conflicting, Err(StepError::Read { .. })), "{conflicting:?}");
    let going_on = store.resume(acme.clone(), run_1.clone(), definition()).unwrap();
    let recorded = going_on.recorded(&key("charge"));
    assert!(matches!(recorded, Err(StepError::Read { .. })), "{recorded:?}");
    device.heal();
    still_works(&device, &store);
    assert_eq!(going_on.recorded(&key("charge")).unwrap().unwrap().value, b"paid");

    assert!(matches!(store.tenant_of(&run("run-9")), Err(StepError::UnknownRun { .. })));
    assert!(matches!(store.step_count(&acme, &run("run-9")), Err(StepError::UnknownRun { .. })));
    assert!(matches!(store.definition_of(&acme, &run("run-9")), Err(StepError::UnknownRun { .. })));
    assert!(matches!(
        store.resume(acme.clone(), run("run-9"), definition()),
        Err(StepError::UnknownRun { .. })
    ));
    assert!(store.knows_run(&run_1) && !store.knows_run(&run("run-9")));
    assert_eq!(store.tenant_of(&run_1).unwrap(), acme);
    assert_eq!(store.definition_of(&acme, &run_1).unwrap(), definition());
    // A new run may start under any definition.
    store.check_definition(&acme, &run("run-9"), &Definition { revision: 99, ..definition() }).unwrap();
}

#[test]
fn a_step_is_performed_once_and_then_taken_from_the_store() {
    let device = Device::default();
    let store = open(&device);
    let going_on = store.run(tenant("acme"), run("run-1"), definition()).unwrap();
    let path = || StepPath::new("charge").unwrap();
    let failed = going_on.step(path(), |_| Err("no connection"));
    assert!(matches!(failed, Err(StepFailure::Step("no connection"))), "{failed:?}");
    assert!(!store.knows_run(&run("run-1")), "a failed step is not recorded");
    let mut keys = Vec::new();
    let value = going_on.step(path(), |key| {
        keys.push(*key);
        Ok::<_, ()>(b"paid".to_vec())
    });
    assert_eq!(value.unwrap(), b"paid");
    drop((store, going_on));
    let store = open(&device);
    let going_on = store.resume(tenant("acme"), run("run-1"), definition()).unwrap();
    assert_eq!(going_on.step(path(), |_| -> Result<_, ()> { panic!("performed twice") }).unwrap(), b"paid");
    let recorded = going_on.recorded(&keys[0]).unwrap().unwrap();
    assert_eq!((recorded.path.as_str(), recorded.value), ("charge", b"paid".to_vec()));
    assert_eq!(value_of(&store, "run-1", "absent"), None);
}
