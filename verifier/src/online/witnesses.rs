//! What the witnesses of a policy say of a log: with each other, with the log, with what is remembered.
//!
//! A witness that is behind is late; one whose tree is not a prefix of the others' proves a fork. The two
//! are told apart by consistency proofs from the log's own tiles, which the newest signed root vouches for.

use std::sync::Arc;

use futures_util::future::join_all;
use runseal_evidence::amount::amount;
use runseal_evidence::finding::{Finding, FindingKind};
use runseal_evidence::report::{
    Command, Cosignature, CosignatureStatus, LogState, NotChecked, Quorum, Report, Scope, TreeState,
};
use runseal_tlog::consistency;
use runseal_tlog::fraud::FraudProof;
use runseal_tlog::hash::NodeHash;
use runseal_tlog::note::Note;
use runseal_tlog::policy::PolicyWitness;
use runseal_tlog::tile::TileNodes;
use sha2::{Digest as _, Sha256};

use crate::checkpoint::{self, NOTE_BYTES_MAX};
use crate::clock;
use crate::error::Failure;
use crate::fraud::CONVICTED;
use crate::history::{History, LogHistory};
use crate::online::audit::Audited;
use crate::online::blocking::blocking;
use crate::online::http::{Client, FetchError};
use crate::online::source::{LogSource, http_prefix, join};
use crate::online::tree::FetchedTree;
use crate::trust::Trust;

/// What to compare.
#[derive(Debug)]
pub struct Witnesses {
    /// The trust configuration.
    pub trust: Trust,
    /// The log's origin.
    pub origin: String,
    /// The log, where it is known.
    pub source: Option<LogSource>,
    /// What is remembered of it.
    pub history: Option<Arc<History>>,
}

/// One party's word: a checkpoint that the log signed.
#[derive(Clone, Debug)]
struct Statement {
    who: String,
    size: u64,
    root: NodeHash,
    note: Note,
}

struct Comparison<'a> {
    what: &'a Witnesses,
    history: Option<LogHistory>,
    report: Report,
    statements: Vec<Statement>,
    fraud: Option<FraudProof>,
}

impl Witnesses {
    /// Asks everybody and compares the answers.
    ///
    /// # Errors
    /// [`Failure`] of the history or of this process.
    pub async fn compare(&self) -> Result<Audited, Failure> {
        let history = match &self.history {
            Some(history) => {
                let (history, origin) = (Arc::clone(history), self.origin.clone());
                Some(blocking(move || history.log(&origin)).await??)
            }
            None => None,
        };
        let report = Report::new(Command::Witnesses, Scope::Log);
        let mut comparison = Comparison { what: self, history, report, statements: Vec::new(), fraud: None };
        comparison.ask_log().await;
        comparison.ask_history().await?;
        let cosigned = comparison.ask_witnesses().await?;
        comparison.compare().await?;
        comparison.quorum(&cosigned);
        let Comparison { report, fraud, .. } = comparison;
        Ok(Audited { report, fraud })
    }
}

impl Comparison<'_> {
    async fn ask_log(&mut self) {
        let Some(source) = &self.what.source else {
            self.report.skipped("log", "nothing says where the log is: its own word was not compared");
            return;
        };
        match source.checkpoint().await {
            Ok(bytes) => {
                let mut own = Report::new(Command::Witnesses, Scope::Log);
                match checkpoint::examine(&mut own, &self.what.trust, &self.what.origin, &bytes) {
                    Some(signed) => {
                        let (size, root) = (signed.checkpoint.size(), *signed.checkpoint.root());
                        self.report.passed("log", format!("the log shows size {size}"));
                        self.add("the log", size, root, signed.note);
                    }
                    None => self.report.findings.append(&mut own.findings),
                }
            }
            Err(error) => self.report.not_checked.push(NotChecked::gap("the log", error.to_string())),
        }
    }

    async fn ask_history(&mut self) -> Result<(), Failure> {
        let Some(history) = self.history.clone() else {
            self.report.skipped("history", "no --history was given: nothing remembered was compared");
            return Ok(());
        };
        match blocking(move || history.latest()).await?? {
            Some(latest) => {
                let root = latest.root.to_base64();
                self.report.previous = Some(TreeState { size: latest.size, root });
                self.add("the history", latest.size, latest.root, latest.note);
            }
            None => self.report.skipped("history", "nothing of this log is remembered yet"),
        }
        Ok(())
    }

    /// Asks every witness for its latest checkpoint of the log. Answers who cosigned what.
    async fn ask_witnesses(&mut self) -> Result<Vec<Option<usize>>, Failure> {
        let client = Client::new(None)?;
        let witnesses = self.what.trust.policy.witnesses();
        let path = format!("{}/checkpoint", hex::encode(Sha256::digest(self.what.origin.as_bytes())));
        let answers = join_all(witnesses.iter().map(|witness| ask(&client, witness, &path))).await;
        let mut cosigned = vec![None; witnesses.len()];
        for (at, (witness, answer)) in witnesses.iter().zip(answers).enumerate() {
            let name = witness.key.name().to_string();
            let what = format!("witness {name}");
            match answer {
                Ok(Some(bytes)) => match self.cosigned_by(witness, &bytes) {
                    Ok((time, statement)) => {
                        let when = clock::spell(time);
                        self.report.passed(&what, format!("cosigned size {} at {when}", statement.size));
                        let status = CosignatureStatus::Valid;
                        self.report.cosignatures.push(Cosignature {
                            witness: name,
                            time: Some(time),
                            status,
                        });
                        cosigned[at] = Some(self.statements.len());
                        self.statements.push(statement);
                    }
                    Err(why) => {
                        self.report.failed(&what, why.clone());
                        self.report.not_checked.push(NotChecked::gap(what, why));
                    }
                },
                Ok(None) => {
                    self.report.skipped(&what, "it has never cosigned this log");
                }
                Err(why) => self.report.not_checked.push(NotChecked::gap(what, why)),
            }
        }
        Ok(cosigned)
    }

    /// The statement in a witness's answer, if it is the log's and carries that witness's cosignature.
    fn cosigned_by(&self, witness: &PolicyWitness, bytes: &[u8]) -> Result<(u64, Statement), String> {
        let mut own = Report::new(Command::Witnesses, Scope::Log);
        let signed = checkpoint::examine(&mut own, &self.what.trust, &self.what.origin, bytes);
        let signed = signed.ok_or_else(|| {
            let why = own.findings.first().map_or("it is refused", |finding| &finding.detail);
            format!("its checkpoint is worth nothing: {why}")
        })?;
        let text = signed.note.unverified_text();
        let lines = signed.note.signatures().iter().filter(|line| line.is_of(&witness.key));
        let time = lines.filter_map(|line| line.verify(text, &witness.key).ok()?.time).max();
        let time = time.ok_or("its checkpoint does not carry its own valid cosignature")?;
        let (size, root) = (signed.checkpoint.size(), *signed.checkpoint.root());
        let who = format!("witness {}", witness.key.name());
        Ok((time, Statement { who, size, root, note: signed.note }))
    }

    fn add(&mut self, who: &str, size: u64, root: NodeHash, note: Note) {
        self.statements.push(Statement { who: who.to_owned(), size, root, note });
    }

    /// Holds all statements against the largest one.
    async fn compare(&mut self) -> Result<(), Failure> {
        let mut statements = self.statements.clone();
        statements.sort_by_key(|statement| std::cmp::Reverse(statement.size));
        let Some((newest, rest)) = statements.split_first() else { return Ok(()) };
        self.report.log = Some(LogState {
            origin: self.what.origin.clone(),
            size: newest.size,
            root: newest.root.to_base64(),
            checkpoint: newest.note.to_string(),
        });
        for older in rest {
            if older.size == newest.size {
                if older.root == newest.root {
                    self.agrees(older, newest);
                } else {
                    let detail = format!(
                        "{} and {} have two roots for size {}: {} and {}",
                        older.who, newest.who, newest.size, older.root, newest.root
                    );
                    self.fork(older, newest, Some(Vec::new()), detail).await?;
                }
                continue;
            }
            match self.consistent(older, newest).await? {
                Ok(()) => self.agrees(older, newest),
                Err(Doubt::Fork(error, hashes)) => {
                    let detail = format!(
                        "{} at size {} is no earlier state of {} at size {}: {error}",
                        older.who, older.size, newest.who, newest.size
                    );
                    self.fork(older, newest, hashes, detail).await?;
                }
                Err(Doubt::Unknown(why)) => {
                    let what = format!("whether {} at size {} is late or forked", older.who, older.size);
                    self.report.not_checked.push(NotChecked::gap(what, why));
                }
            }
        }
        Ok(())
    }

    fn agrees(&mut self, older: &Statement, newest: &Statement) {
        let behind = newest.size - older.size;
        let detail = if behind == 0 {
            format!("the same tree as {}, size {}", newest.who, newest.size)
        } else {
            format!("an earlier state of {}: late by {}", newest.who, amount(behind, "entry"))
        };
        self.report.passed(format!("{} agrees", older.who), detail);
    }

    async fn fork(
        &mut self,
        older: &Statement,
        newer: &Statement,
        hashes: Option<Vec<NodeHash>>,
        detail: String,
    ) -> Result<(), Failure> {
        self.report.failed(format!("{} agrees", older.who), detail.clone());
        self.report.findings.push(Finding::new(FindingKind::Fork, detail));
        let Some(hashes) = hashes else { return Ok(()) };
        let proof = FraudProof { hashes, older: older.note.clone(), newer: newer.note.clone() };
        let keys: Vec<_> = self.what.trust.policy.log_keys(&self.what.origin).collect();
        match proof.verify(keys) {
            Ok(_) => {
                self.report.failed("one-history", CONVICTED);
                if let Some(history) = self.history.clone() {
                    let text = proof.to_string();
                    blocking(move || history.keep_fraud(&text)).await??;
                }
                self.fraud.get_or_insert(proof);
            }
            Err(error) => self.report.skipped("one-history", format!("no fraud proof follows: {error}")),
        }
        Ok(())
    }

    /// Whether `newer` extends `older`, from the history's leaves or the log's tiles.
    async fn consistent(&self, older: &Statement, newer: &Statement) -> Result<Result<(), Doubt>, Failure> {
        let (old, new) = (older.size, newer.size);
        if let Some(history) = self.history.clone() {
            let roots = blocking(move || Ok::<_, Failure>((history.root_at(old)?, history.root_at(new)?)));
            // The history's tree speaks for the newer statement only where it is the same tree.
            if let (Some(before), Some(now)) = roots.await??
                && now == newer.root
            {
                if before == older.root {
                    return Ok(Ok(()));
                }
                let history = self.history.clone().expect("it was there above");
                let hashes =
                    blocking(move || FraudProof::hashes(old, new, &TileNodes::new(&history, new))).await?;
                let error = format!("the remembered entries gave root {before} at that size");
                return Ok(Err(Doubt::Fork(error, hashes.ok())));
            }
        }
        let Some(source) = &self.what.source else {
            let why = "the log's tiles, which would tell, are not known: give --url".to_owned();
            return Ok(Err(Doubt::Unknown(why)));
        };
        let tree = match FetchedTree::fetch(source, old, new, 4).await {
            Ok(fetched) => match fetched.authenticate(&newer.root) {
                Ok(tree) => tree,
                Err(error) => {
                    return Ok(Err(Doubt::Unknown(format!("the log serves no tiles of that tree: {error}"))));
                }
            },
            Err(error) => return Ok(Err(Doubt::Unknown(error.to_string()))),
        };
        let nodes = TileNodes::new(&tree, new);
        let proof = match consistency::prove(old, new, &nodes) {
            Ok(proof) => proof,
            Err(error) => return Ok(Err(Doubt::Unknown(error.to_string()))),
        };
        Ok(match consistency::verify(old, &older.root, new, &newer.root, &proof) {
            Ok(()) => Ok(()),
            Err(error) => Err(Doubt::Fork(error.to_string(), FraudProof::hashes(old, new, &nodes).ok())),
        })
    }

    /// Whether the witnesses that cosigned one and the same history meet the quorum.
    fn quorum(&mut self, cosigned: &[Option<usize>]) {
        let policy = &self.what.trust.policy;
        if policy.quorum_is_none() {
            self.report.skipped("quorum", "the policy asks for no witness");
            return;
        }
        let name = policy.quorum_name().to_string();
        let met = self.report.findings.is_empty() && policy.quorum_met(|witness| cosigned[witness].is_some());
        self.report.quorum = Some(Quorum { name: name.clone(), met });
        if met {
            self.report.passed("quorum", format!("the witnesses that follow this log meet quorum {name}"));
            return;
        }
        let detail = format!("the witnesses that follow this log do not meet quorum {name}");
        self.report.failed("quorum", detail.clone());
        // Whoever could not be asked may be the one that is missing.
        if self.report.findings.is_empty() && self.report.not_checked.is_empty() {
            self.report.findings.push(Finding::new(FindingKind::QuorumNotMet, detail));
        }
    }
}

enum Doubt {
    Fork(String, Option<Vec<NodeHash>>),
    Unknown(String),
}

/// A witness's latest checkpoint of the log at `path`; `None` where it has never cosigned it.
async fn ask(client: &Client, witness: &PolicyWitness, path: &str) -> Result<Option<Vec<u8>>, String> {
    let url = witness.url().ok_or("its line in the policy has no URL")?;
    let prefix = http_prefix(url).map_err(|error| error.to_string())?;
    match client.get(&join(&prefix, path), NOTE_BYTES_MAX, false).await {
        Ok(body) => body.open(NOTE_BYTES_MAX).map(Some).map_err(|error| error.to_string()),
        Err(FetchError::NotFound { status: 404, .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
