//! The witness client against witnesses that do everything a witness may do, and what none should.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod scripted;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use runseal::{
    Journal, ManualClock,
    evidence::name::TenantId,
    tlog::{
        checkpoint::Checkpoint,
        hash::NodeHash,
        key::{Algorithm, KeyName, SignerKey},
        policy::Policy,
    },
    witnessing::{
        AlarmKind, Client, ClientError, FailureReason, OnShortfall, Patience, Publication, Round, Submission,
        SubmittingLog, Terms, compare_with_witnesses, cosign, publish,
    },
};
use scripted::{Asked, Cosigner, Reply, Scripted};

const ORIGIN: &str = "log.example/plane";
const TIME: u64 = 1_760_000_000;

/// A log whose proofs are recognisable and whose memory can be looked at.
#[derive(Default)]
struct FakeLog {
    sizes: Mutex<HashMap<String, u64>>,
}

impl SubmittingLog for FakeLog {
    type Error = std::convert::Infallible;

    fn consistency_proof(&self, old: u64, new: u64) -> Result<Vec<NodeHash>, Self::Error> {
        // RFC 6962: none from nothing, none to the same. One hash that says which proof it is, otherwise.
        Ok(if old == 0 || old == new { Vec::new() } else { vec![marker(old, new)] })
    }

    fn witness_size(&self, witness: &str) -> Result<u64, Self::Error> {
        Ok(self.sizes.lock().unwrap().get(witness).copied().unwrap_or(0))
    }

    fn remember_witness_size(&self, witness: &str, size: u64) -> Result<(), Self::Error> {
        self.sizes.lock().unwrap().insert(witness.to_owned(), size);
        Ok(())
    }
}

fn marker(old: u64, new: u64) -> NodeHash {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&old.to_be_bytes());
    bytes[8..16].copy_from_slice(&new.to_be_bytes());
    NodeHash::from_bytes(bytes)
}

fn log_key() -> SignerKey {
    SignerKey::from_seed(KeyName::new(ORIGIN).unwrap(), Algorithm::Ed25519, &[7; 32])
}

fn submission(size: u64) -> Submission {
    let checkpoint = Checkpoint::new(ORIGIN, size, NodeHash::from_bytes([9; 32])).unwrap();
    Submission::new(checkpoint.sign(&log_key()).unwrap()).unwrap()
}

fn policy(witnesses: &[(&Cosigner, &str)], quorum: &str) -> Policy {
    let mut lines: Vec<String> = Vec::new();
    for (at, (cosigner, url)) in witnesses.iter().enumerate() {
        lines.push(format!("witness w{at} {} {url}\n", cosigner.vkey()));
    }
    Policy::parse(format!("{}{quorum}\n", lines.concat()).as_bytes()).unwrap()
}

/// One round with a short timeout.
fn round(policy: &Policy, log: &Arc<FakeLog>, size: u64, patience: Patience) -> Round {
    runtime().block_on(async {
        let client = Client::new(Duration::from_millis(700)).unwrap();
        cosign(&client, policy, log, &submission(size), patience).await.unwrap()
    })
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A round with one witness, to which `script` gives the answers.
fn alone(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> (Round, Vec<Asked>, Arc<FakeLog>) {
    let log = Arc::new(FakeLog::default());
    let witness = Scripted::new(script);
    let policy = policy(&[(&cosigner(), &witness.url)], "quorum w0");
    let round = round(&policy, &log, 20, Patience::All);
    (round, witness.asked(), log)
}

fn cosigner() -> Cosigner {
    Cosigner::new("north.example/w", 1)
}

fn signing(asked: &Asked) -> Reply {
    Reply::lines(&[cosigner().line(&asked.note_text(), TIME)])
}

#[test]
fn a_first_request_starts_from_nothing_and_the_next_from_what_was_cosigned() {
    let log = Arc::new(FakeLog::default());
    let witness = Scripted::new(signing);
    // A slash at the end of a prefix is none of the path's.
    let policy = policy(&[(&cosigner(), &format!("{}/", witness.url))], "quorum w0");
    let first = round(&policy, &log, 20, Patience::All);
    assert!(first.quorum_met(&policy));
    assert_eq!(first.cosignatures[0].time, TIME);
    let note = first.cosigned_note(&submission(20)).unwrap().to_string();
    assert!(note.ends_with(&cosigner().line(submission(20).note().unverified_text(), TIME)), "{note}");
    assert!(round(&policy, &log, 30, Patience::All).quorum_met(&policy));
    // An unchanged checkpoint is cosigned again, for a fresh time.
    assert!(round(&policy, &log, 30, Patience::All).quorum_met(&policy));
    let asked = witness.asked();
    assert_eq!(asked.iter().map(|asked| asked.path.as_str()).collect::<Vec<_>>(), ["/add-checkpoint"; 3]);
    assert_eq!(asked.iter().map(Asked::old_size).collect::<Vec<_>>(), [0, 20, 30]);
    assert_eq!(asked[0].proof(), Vec::<&str>::new());
    assert_eq!(asked[1].proof(), [marker(20, 30).to_base64()]);
    assert_eq!(asked[2].proof(), Vec::<&str>::new());
    assert_eq!(asked[0].note(), submission(20).note().to_string());
}

#[test]
fn a_witness_that_is_elsewhere_gets_a_proof_from_there_to_what_was_submitted() {
    for (remembered, named) in [(0, 12), (15, 12), (15, 0), (15, 20), (50, 12)] {
        let log = Arc::new(FakeLog::default());
        log.remember_witness_size(cosigner().name, remembered).unwrap();
        let mut first = true;
        let witness =
            Scripted::new(
                move |asked| {
                    if std::mem::take(&mut first) { Reply::size(named) } else { signing(asked) }
                },
            );
        let policy = policy(&[(&cosigner(), &witness.url)], "quorum w0");
        let round = round(&policy, &log, 20, Patience::All);
        assert!(round.quorum_met(&policy), "{remembered} {named}: {:?}", round.failures);
        let asked = witness.asked();
        assert_eq!(asked.len(), 2);
        assert_eq!((asked[0].old_size(), asked[1].old_size()), (remembered.min(20), named));
        let expected = if named == 0 || named == 20 { vec![] } else { vec![marker(named, 20).to_base64()] };
        assert_eq!(asked[1].proof(), expected);
        assert_eq!(log.witness_size(cosigner().name), Ok(20));
    }
}

#[test]
fn a_witness_that_moves_on_at_every_request_is_given_up_after_three() {
    let mut size = 10;
    let (round, asked, log) = alone(move |_| {
        size += 1;
        Reply::size(size)
    });
    assert!(matches!(round.failures[0].reason, FailureReason::ConflictForEver), "{:?}", round.failures);
    assert!(round.alarms.is_empty());
    assert_eq!(asked.len(), 3);
    assert_eq!(log.witness_size(cosigner().name), Ok(0), "nothing was cosigned");
}

#[test]
fn a_witness_ahead_of_the_log_is_an_alarm_at_once() {
    let (round, asked, _) = alone(|_| Reply::size(21));
    assert_eq!(asked.len(), 1);
    let expected = AlarmKind::Rollback { origin: ORIGIN.to_owned(), cosigned: 21, submitted: 20 };
    assert_eq!(round.alarms.iter().map(|alarm| alarm.kind.clone()).collect::<Vec<_>>(), [expected]);
    assert!(round.alarms[0].to_string().starts_with("INTEGRITY ALARM"));
    assert!(round.cosignatures.is_empty() && round.failures.is_empty());
}

#[test]
fn a_refused_proof_is_an_alarm_at_once() {
    let (round, asked, _) = alone(|_| Reply::Plain(422, "text/plain", b"no\n".to_vec()));
    assert_eq!(asked.len(), 1);
    assert!(matches!(round.alarms[0].kind, AlarmKind::Contradiction { old: 0, submitted: 20, .. }));
}

#[test]
fn a_conflict_that_cannot_be_read_says_nothing_about_the_log() {
    const SIZE: &str = "text/x.tlog.size";
    for (content_type, body) in [
        (SIZE, &b""[..]),
        (SIZE, b"\n"),
        (SIZE, b"21"),
        (SIZE, b"021\n"),
        (SIZE, b"+21\n"),
        (SIZE, b"-1\n"),
        (SIZE, b"12abc\n"),
        (SIZE, b"21\n\n"),
        (SIZE, b" 21\n"),
        (SIZE, b"21\r\n"),
        (SIZE, b"999999999999999999999999999999\n"),
        (SIZE, b"\xff\n"),
        ("text/plain", b"21\n"),
        ("text/html", b"<html>Conflict</html>"),
        ("", b"21\n"),
    ] {
        let (round, asked, _) = alone(move |_| Reply::Plain(409, content_type, body.to_vec()));
        assert!(matches!(round.failures[0].reason, FailureReason::ConflictUnreadable), "{body:?}: {round:?}");
        assert!(round.alarms.is_empty(), "{body:?}");
        assert_eq!(asked.len(), 1, "no proof is built from it");
    }
    // The size it was just sent is no reason to refuse it.
    let (round, _, _) = alone(|_| Reply::size(0));
    assert!(matches!(round.failures[0].reason, FailureReason::ConflictRepeated(0)));
    // A parameter does not make it another type.
    let mut first = true;
    let (round, asked, _) = alone(move |asked| {
        if std::mem::take(&mut first) {
            Reply::Plain(409, "Text/X.tlog.size; charset=utf-8", b"5\n".to_vec())
        } else {
            signing(asked)
        }
    });
    assert_eq!((round.cosignatures.len(), asked[1].old_size()), (1, 5));
}

#[test]
fn an_answer_is_bounded_whatever_its_status() {
    for status in [200, 409, 500] {
        let (round, _, _) = alone(move |_| Reply::Plain(status, "text/x.tlog.size", vec![b'1'; 10 << 20]));
        assert!(matches!(round.failures[0].reason, FailureReason::Client(ClientError::TooLong)), "{round:?}");
        assert!(round.alarms.is_empty());
    }
}

#[test]
fn a_redirect_is_not_followed_and_not_success() {
    for status in [301, 302, 303, 307, 308] {
        let other = Scripted::new(signing);
        let to = format!("{}/add-checkpoint", other.url);
        let (round, asked, _) = alone(move |_| Reply::Redirect(status, to.clone()));
        assert!(matches!(round.failures[0].reason, FailureReason::Redirect(found) if found == status));
        assert!(round.cosignatures.is_empty());
        assert_eq!((asked.len(), other.all_asked().len()), (1, 0));
    }
}

#[test]
fn other_refusals_are_the_witness_own_trouble() {
    for status in [400, 401, 403, 404, 405, 413, 429, 500, 502, 503] {
        let (round, asked, _) =
            alone(move |_| Reply::Plain(status, "text/html", b"<html>21</html>".to_vec()));
        assert_eq!((round.failures.len(), round.alarms.len(), asked.len()), (1, 0, 1), "{status}");
    }
}

#[test]
fn silence_and_absence_end_in_time() {
    let started = Instant::now();
    let (round, _, _) = alone(|_| Reply::Silence);
    assert!(matches!(round.failures[0].reason, FailureReason::Client(ClientError::Timeout(_))), "{round:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    let log = Arc::new(FakeLog::default());
    for (url, expected) in [
        (&nobody()[..], "refused"),
        ("ftp://w.example", "ftp://w.example"),
        ("nonsense", "nonsense"),
        ("", "no URL"),
    ] {
        let policy = policy(&[(&cosigner(), url)], "quorum w0");
        let round = self::round(&policy, &log, 20, Patience::All);
        let said = round.failures[0].to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn only_lines_that_verify_under_a_key_of_that_witness_are_kept() {
    let other = Cosigner::new("south.example/w", 2);
    let (round, _, _) = alone({
        let other = other.clone();
        move |asked| {
            let text = asked.note_text();
            let own_log_line = asked.note().split_once("\n\n").unwrap().1.to_owned();
            let mut lines = vec!["junk\n".to_owned(), "\u{2014} x\n".to_owned(), "\n".to_owned()];
            lines.extend((0..50).map(|n| format!("junk {n}\n")));
            lines.push(own_log_line);
            lines.push(other.line(&text, TIME));
            lines.push(cosigner().line_with_id_of(1, &text, TIME));
            lines.push(cosigner().line(&text, TIME));
            // The same key again, and once more at another time: one line a key.
            lines.push(cosigner().line(&text, TIME + 1));
            Reply::lines(&lines)
        }
    });
    assert_eq!(round.cosignatures.len(), 1);
    assert_eq!(
        round.cosignatures[0].line.to_string() + "\n",
        cosigner().line(submission(20).note().unverified_text(), TIME)
    );
}

#[test]
fn two_hundred_without_a_cosignature_is_no_cosignature() {
    for reply in [
        |_: &str| Vec::new(),
        |_: &str| vec!["<html><body>It works!</body></html>\n".to_owned()],
        // Over another text, at a time that is none, under another key, with another type's key ID.
        |text: &str| vec![cosigner().line(&text.replace("20\n", "21\n"), TIME)],
        |text: &str| vec![cosigner().line(text, 0)],
        |text: &str| vec![cosigner().line(text, 1 << 63)],
        |text: &str| vec![Cosigner::new("north.example/w", 3).line(text, TIME)],
        |text: &str| vec![cosigner().line_with_id_of(1, text, TIME)],
        |text: &str| vec![cosigner().line(text, TIME).replacen("north", "south", 1)],
    ] {
        let (round, _, log) = alone(move |asked| Reply::lines(&reply(&asked.note_text())));
        assert!(matches!(round.failures[0].reason, FailureReason::NoCosignature), "{round:?}");
        assert!(round.cosignatures.is_empty());
        assert_eq!(
            log.witness_size(cosigner().name),
            Ok(0),
            "nothing was cosigned, so nothing is remembered"
        );
    }
}

#[test]
fn keys_at_one_url_share_one_request() {
    let (one, two) = (Cosigner::new("north.example/w", 1), Cosigner::new("north.example/w2", 2));
    let log = Arc::new(FakeLog::default());
    let witness = {
        let (one, two) = (one.clone(), two.clone());
        Scripted::new(move |asked| {
            Reply::lines(&[one.line(&asked.note_text(), TIME), two.line(&asked.note_text(), TIME)])
        })
    };
    let policy =
        policy(&[(&one, &witness.url), (&two, &format!("{}/", witness.url))], "group g all w0 w1\nquorum g");
    let both = round(&policy, &log, 20, Patience::All);
    assert!(both.quorum_met(&policy));
    assert_eq!(witness.asked().len(), 1);
    drop(witness);
    // One of the two alone is no quorum of both, and the other is named.
    let half = Scripted::new(move |asked| Reply::lines(&[two.line(&asked.note_text(), TIME)]));
    let policy = self::policy(
        &[(&one, &half.url), (&Cosigner::new("north.example/w2", 2), &half.url)],
        "group g all w0 w1\nquorum g",
    );
    let round = round(&policy, &Arc::new(FakeLog::default()), 20, Patience::All);
    assert!(!round.quorum_met(&policy));
    assert_eq!((round.cosignatures[0].witness, round.failures[0].asked.witnesses.clone()), (1, vec![0]));
}

#[test]
fn all_witnesses_are_asked_for_the_same_checkpoint_at_once() {
    let cosigners =
        [Cosigner::new("a.example/w", 1), Cosigner::new("b.example/w", 2), Cosigner::new("c.example/w", 3)];
    let witnesses: Vec<Scripted> = cosigners
        .iter()
        .map(|cosigner| {
            let cosigner = cosigner.clone();
            Scripted::new(move |asked| {
                std::thread::sleep(Duration::from_millis(300));
                Reply::lines(&[cosigner.line(&asked.note_text(), TIME)])
            })
        })
        .collect();
    let listed: Vec<_> = cosigners
        .iter()
        .zip(&witnesses)
        .map(|(cosigner, witness)| (cosigner, witness.url.as_str()))
        .collect();
    let policy = policy(&listed, "group g 2 w0 w1 w2\nquorum g");
    let started = Instant::now();
    let round = round(&policy, &Arc::new(FakeLog::default()), 20, Patience::All);
    assert!(started.elapsed() < Duration::from_millis(800), "one after the other: {:?}", started.elapsed());
    assert_eq!(round.cosignatures.iter().map(|cosigned| cosigned.witness).collect::<Vec<_>>(), [0, 1, 2]);
    let notes: Vec<String> = witnesses.iter().map(|witness| witness.asked()[0].note().to_owned()).collect();
    assert!(notes.iter().all(|note| *note == notes[0]));
}

#[test]
fn a_quorum_does_not_wait_for_a_witness_that_hangs_nor_leave_anything_behind() {
    let hanging = Scripted::new(|_| Reply::Silence);
    let answering = Scripted::new(signing);
    let policy = policy(
        &[(&cosigner(), &answering.url), (&Cosigner::new("h.example/w", 5), &hanging.url)],
        "quorum w0",
    );
    let log = Arc::new(FakeLog::default());
    runtime().block_on(async {
        let client = Client::new(Duration::from_secs(10)).unwrap();
        let started = Instant::now();
        let mut open = 0;
        for number in 0..60 {
            let patience = Patience::AfterQuorum(Duration::from_millis(1));
            let round = cosign(&client, &policy, &log, &submission(20), patience).await.unwrap();
            assert!(round.quorum_met(&policy));
            if number == 9 {
                open = sockets();
            }
        }
        assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
        // The hanging witness holds its own ends of these connections in this process too.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(sockets() < open + 120, "{open} sockets became {}", sockets());
        assert!(tokio::runtime::Handle::current().metrics().num_alive_tasks() < 20);
    });
}

/// A URL where nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

fn sockets() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// A journal with one sealed run, and its log.
fn journal() -> (Journal, Arc<runseal::Log>) {
    let clock = Arc::new(ManualClock::at(1_760_000_000_000));
    let journal = Journal::in_memory(&ORIGIN.parse().unwrap(), [1; 32], clock).unwrap();
    let text = br#"{"run":"r","kind":"RunConcluded","payload":{"outcome":"done"}}"#;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let tenant = journal.tenant(&TenantId::default());
    let runs = runseal::importer::read_file(
        file.path(),
        runseal::importer::Format::Jsonl,
        tenant.id(),
        runseal::importer::Ending::Seal,
    );
    let run = runs.unwrap().remove(0);
    tenant.import(&run.run, run.drafts, run.seal).unwrap();
    let log = Arc::new(tenant.log().clone());
    (journal, log)
}

#[test]
fn an_alarm_stops_publication_whatever_the_quorum_says() {
    let (_journal, log) = journal();
    let good = Scripted::new(signing);
    for alarming in
        [Scripted::new(|_| Reply::size(2)), Scripted::new(|_| Reply::Plain(422, "text/plain", Vec::new()))]
    {
        let policy = policy(
            &[(&cosigner(), &good.url), (&Cosigner::new("s.example/w", 4), &alarming.url)],
            "quorum w0",
        );
        for on_shortfall in [OnShortfall::Hold, OnShortfall::Publish] {
            let terms = Terms { policy: &policy, on_shortfall, patience: Patience::All };
            let publication = runtime().block_on(async {
                let client = Client::new(Duration::from_secs(5)).unwrap();
                publish(&client, Some(terms), &log, log.sign_checkpoint().unwrap()).await.unwrap()
            });
            assert!(
                matches!(publication, Publication::Alarmed { ref alarms, .. } if alarms.len() == 1),
                "{publication:?}"
            );
            assert_eq!(log.published().unwrap(), None);
        }
    }
}

#[test]
fn a_shortfall_is_held_or_published_as_told() {
    let (_journal, log) = journal();
    let policy = policy(&[(&cosigner(), &nobody())], "quorum w0");
    for (on_shortfall, published) in [(OnShortfall::Hold, false), (OnShortfall::Publish, true)] {
        let terms = Terms { policy: &policy, on_shortfall, patience: Patience::All };
        runtime().block_on(async {
            let client = Client::new(Duration::from_secs(5)).unwrap();
            publish(&client, Some(terms), &log, log.sign_checkpoint().unwrap()).await.unwrap()
        });
        assert_eq!(log.published().unwrap().is_some(), published);
    }
}

/// What a witness remembers is believed only where the log itself signed it.
#[test]
fn a_remembered_checkpoint_that_the_journal_does_not_continue_is_an_alarm_before_signing() {
    let (_journal, log) = journal();
    let master = Journal::in_memory(&ORIGIN.parse().unwrap(), [1; 32], Arc::new(ManualClock::at(0))).unwrap();
    // The same plane, as it was before the disk was restored from a backup: larger than now.
    let elsewhere = master.tenant(&TenantId::default());
    for run in ["x", "y"] {
        let conclusion = runseal::evidence::record::RecordDraft {
            kind: "RunConcluded".parse().unwrap(),
            payload: runseal::evidence::json::Json::parse(br#"{"outcome":"done"}"#).unwrap(),
            effect: None,
            case: None,
        };
        elsewhere.import(&run.parse().unwrap(), vec![conclusion], true).unwrap();
    }
    let ours = elsewhere.sign_checkpoint().unwrap();
    let foreign = submission(50);
    let page = |note: &runseal::tlog::note::Note, cosigned: bool| {
        let mut text = note.to_string();
        if cosigned {
            text += &cosigner().line(note.unverified_text(), TIME);
        }
        text
    };
    for (served, alarms) in [
        (page(&ours, true), 1),
        // Without the witness's own cosignature, or signed by another log key, it accuses nobody.
        (page(&ours, false), 0),
        (page(foreign.note(), true), 0),
        ("<html>".to_owned(), 0),
        (page(&log.sign_checkpoint().unwrap(), true), 0),
    ] {
        let witness = Scripted::new(move |_| Reply::Plain(200, "text/plain", served.clone().into_bytes()));
        let policy = policy(&[(&cosigner(), &witness.url)], "quorum w0");
        let found = runtime().block_on(async {
            let client = Client::new(Duration::from_secs(5)).unwrap();
            compare_with_witnesses(&client, &policy, &log).await.unwrap()
        });
        assert_eq!(found.len(), alarms, "{found:?}");
        // SHA-256 of the origin in lower-case hex, as the monitoring page is called.
        let asked = witness.all_asked();
        assert_eq!(asked[0].method, "GET");
        let page = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(ORIGIN));
        assert_eq!(asked[0].path, format!("/{page}/checkpoint"));
    }
}
