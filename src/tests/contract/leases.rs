//! A lease is claimed once, kept by who holds it, and its epoch only grows.

use std::sync::Barrier;
use std::time::Duration;

use crate::store::Table;
use crate::tests::world::{NOW, TTL, World, concluded, note, run};
use crate::{AppendError, LeaseError, SealError};

on_every_engine! {
    the_first_claim_has_epoch_1_and_each_later_one_a_higher_one
    of_racing_first_claims_one_wins
    the_holder_itself_cannot_claim_again
    a_lapsed_lease_is_claimed_with_a_higher_epoch_even_by_its_own_owner
    renewing_keeps_the_epoch_and_needs_exactly_owner_and_epoch
    renewing_never_claims
    returning_keeps_the_epoch
    returning_anothers_lease_or_twice_does_nothing
    a_lost_lease_row_takes_its_epoch_from_the_records
    epochs_never_decrease_when_the_lease_row_is_older_than_the_records
    lives_under_a_second_or_past_the_end_of_time_are_refused
    a_blank_owner_is_refused
    an_owner_has_256_bytes_at_most
    a_sealed_run_is_not_leased_and_its_lease_is_returned
    a_fenced_owner_can_do_nothing
    the_last_epoch_is_not_passed
}

fn the_first_claim_has_epoch_1_and_each_later_one_a_higher_one(world: World) {
    for expected in 1..=5 {
        let lease = world.acme.acquire(&run("r"), "w", TTL).unwrap();
        assert_eq!((lease.epoch, lease.expires_at_ms), (expected, NOW + 30_000));
        world.acme.release(&run("r"), lease.epoch).unwrap();
    }
}

fn of_racing_first_claims_one_wins(world: World) {
    for round in 0..50 {
        let name = run(&format!("r{round}"));
        let barrier = Barrier::new(2);
        let won = std::thread::scope(|scope| {
            let claim = |owner: &'static str| {
                let (world, barrier, name) = (&world, &barrier, &name);
                scope.spawn(move || {
                    barrier.wait();
                    world.acme.acquire(name, owner, TTL)
                })
            };
            let threads = [claim("a"), claim("b")];
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(won.iter().filter(|result| result.is_ok()).count(), 1, "{won:?}");
        for refused in won.iter().filter_map(|result| result.as_ref().err()) {
            assert!(matches!(refused, LeaseError::LeaseHeld { epoch: 1, .. }), "{refused}");
        }
    }
}

fn the_holder_itself_cannot_claim_again(world: World) {
    world.lease("r");
    world.clock.advance(10_000);
    let refused = world.acme.acquire(&run("r"), "worker", TTL).unwrap_err();
    let LeaseError::LeaseHeld { owner, epoch: 1, remaining, .. } = refused else { panic!("{refused}") };
    assert_eq!((owner.as_str(), remaining), ("worker", Duration::from_secs(20)));
}

fn a_lapsed_lease_is_claimed_with_a_higher_epoch_even_by_its_own_owner(world: World) {
    world.lease("r");
    world.clock.advance(29_999);
    assert!(world.acme.acquire(&run("r"), "worker", TTL).is_err());
    world.clock.advance(1);
    assert_eq!(world.acme.acquire(&run("r"), "worker", TTL).unwrap().epoch, 2);
}

fn renewing_keeps_the_epoch_and_needs_exactly_owner_and_epoch(world: World) {
    let epoch = world.lease("r");
    world.clock.advance(20_000);
    for (owner, held) in [("other", epoch), ("worker", epoch + 1), ("worker", 0)] {
        let refused = world.acme.renew(&run("r"), owner, held, TTL).unwrap_err();
        assert!(matches!(refused, LeaseError::LeaseNotHeld { epoch, .. } if epoch == held), "{refused}");
    }
    let world = world.reopened();
    let renewed = world.acme.renew(&run("r"), "worker", epoch, TTL).unwrap();
    assert_eq!((renewed.epoch, renewed.expires_at_ms), (epoch, NOW + 50_000));
    world.clock.advance(29_999);
    assert!(world.acme.acquire(&run("r"), "other", TTL).is_err(), "the old expiry no longer counts");
}

fn renewing_never_claims(world: World) {
    let refused = world.acme.renew(&run("r"), "worker", 1, TTL).unwrap_err();
    assert!(matches!(refused, LeaseError::LeaseNotHeld { .. }), "{refused}");
    let epoch = world.lease("r");
    world.acme.release(&run("r"), epoch).unwrap();
    assert!(world.acme.renew(&run("r"), "worker", epoch, TTL).is_err(), "returned");
    let epoch = world.lease("r");
    world.clock.advance(30_000);
    assert!(world.acme.renew(&run("r"), "worker", epoch, TTL).is_err(), "lapsed");
    let taken = world.acme.acquire(&run("r"), "other", TTL).unwrap().epoch;
    assert!(world.acme.renew(&run("r"), "worker", epoch, TTL).is_err(), "taken over");
    assert_eq!(world.acme.renew(&run("r"), "other", taken, TTL).unwrap().epoch, taken);
}

fn returning_keeps_the_epoch(world: World) {
    let epoch = world.lease("r");
    world.acme.release(&run("r"), epoch).unwrap();
    let world = world.reopened();
    assert_eq!(world.lease("r"), epoch + 1);
}

fn returning_anothers_lease_or_twice_does_nothing(world: World) {
    let first = world.lease("r");
    world.acme.release(&run("r"), first).unwrap();
    world.acme.release(&run("r"), first).unwrap();
    let second = world.lease("r");
    for epoch in [first, second + 1, 0] {
        world.acme.release(&run("r"), epoch).unwrap();
    }
    world.acme.release(&run("never"), 1).unwrap();
    world.acme.append(&run("r"), second, vec![note("still held")]).unwrap();
    assert!(world.acme.acquire(&run("r"), "other", TTL).is_err());
}

fn a_lost_lease_row_takes_its_epoch_from_the_records(world: World) {
    for _ in 0..3 {
        let epoch = world.leased_with("r", vec![note("x")]);
        world.acme.release(&run("r"), epoch).unwrap();
    }
    world.plant(Table::Leases, &[b"r"], None);
    assert_eq!(world.lease("r"), 4);
}

fn epochs_never_decrease_when_the_lease_row_is_older_than_the_records(world: World) {
    for _ in 0..3 {
        let epoch = world.leased_with("r", vec![note("x")]);
        world.acme.release(&run("r"), epoch).unwrap();
    }
    // As a restored lease table would have it: epoch 1, held.
    let row =
        [&1u64.to_be_bytes()[..], &(NOW + 30_000).to_be_bytes(), &6u32.to_le_bytes(), b"worker"].concat();
    world.plant(Table::Leases, &[b"r"], Some(&row));
    let refused = world.acme.append(&run("r"), 1, vec![note("x")]).unwrap_err();
    assert!(matches!(refused, AppendError::Fenced { held: 1, current: 3, .. }), "{refused}");
    world.clock.advance(30_000);
    assert_eq!(world.lease("r"), 4);
}

fn lives_under_a_second_or_past_the_end_of_time_are_refused(world: World) {
    for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::MAX, Duration::from_secs(1 << 40)] {
        let refused = world.acme.acquire(&run("r"), "w", ttl).unwrap_err();
        assert!(matches!(refused, LeaseError::Ttl { ttl: found } if found == ttl), "{refused}");
    }
    let lease = world.acme.acquire(&run("r"), "w", Duration::from_secs(1)).unwrap();
    // Before who holds it, so that every caller is told alike.
    let refused = world.acme.renew(&run("r"), "other", lease.epoch, Duration::ZERO).unwrap_err();
    assert!(matches!(refused, LeaseError::Ttl { .. }), "{refused}");
}

fn a_blank_owner_is_refused(world: World) {
    for owner in ["", " ", "\t\n", "\u{3000}"] {
        let refused = world.acme.acquire(&run("r"), owner, TTL).unwrap_err();
        assert!(matches!(refused, LeaseError::BlankOwner), "{refused}");
    }
}

fn an_owner_has_256_bytes_at_most(world: World) {
    let refused = world.acme.acquire(&run("r"), &"x".repeat(257), TTL).unwrap_err();
    assert!(matches!(refused, LeaseError::OwnerTooLong { bytes: 257 }), "{refused}");
    let longest = "x".repeat(256);
    let epoch = world.acme.acquire(&run("r"), &longest, TTL).unwrap().epoch;
    let refused = world.acme.renew(&run("r"), &"x".repeat(257), epoch, TTL).unwrap_err();
    assert!(matches!(refused, LeaseError::OwnerTooLong { bytes: 257 }), "{refused}");
    assert_eq!(world.acme.renew(&run("r"), &longest, epoch, TTL).unwrap().owner, longest);
    world.assert_sound();
}

fn a_sealed_run_is_not_leased_and_its_lease_is_returned(world: World) {
    let epoch = world.leased_with("r", vec![concluded("succeeded")]);
    world.acme.seal(&run("r"), epoch).unwrap();
    let refused = world.acme.acquire(&run("r"), "other", TTL).unwrap_err();
    assert!(matches!(refused, LeaseError::RunSealed { .. }), "{refused}");
    assert!(world.acme.renew(&run("r"), "worker", epoch, TTL).is_err());
    world.clock.advance(3_600_000);
    assert_eq!(world.acme.abandoned_runs(9).unwrap(), []);
    assert!(world.acme.acquire(&run("r"), "other", TTL).is_err());
    world.assert_sound();
}

fn a_fenced_owner_can_do_nothing(world: World) {
    let old = world.leased_with("r", vec![concluded("failed")]);
    world.clock.advance(30_000);
    let new = world.acme.acquire(&run("r"), "other", TTL).unwrap().epoch;
    assert!(world.acme.append(&run("r"), old, vec![note("x")]).is_err());
    assert!(world.acme.renew(&run("r"), "worker", old, TTL).is_err());
    let refused = world.acme.seal(&run("r"), old).unwrap_err();
    assert!(
        matches!(refused, SealError::Fenced { held, current, .. } if (held, current) == (old, new)),
        "{refused}"
    );
    world.acme.release(&run("r"), old).unwrap();
    world.acme.append(&run("r"), new, vec![concluded("succeeded")]).unwrap();
    world.acme.seal(&run("r"), new).unwrap();
}

fn the_last_epoch_is_not_passed(world: World) {
    let row = [&u64::MAX.to_be_bytes()[..], &0i64.to_be_bytes(), &0u32.to_le_bytes()].concat();
    world.plant(Table::Leases, &[b"r"], Some(&row));
    let refused = world.acme.acquire(&run("r"), "w", TTL).unwrap_err();
    assert!(matches!(refused, LeaseError::EpochsExhausted { .. }), "{refused}");
}
