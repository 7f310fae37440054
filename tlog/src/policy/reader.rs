//! Reads a policy line by line.

use std::collections::{HashMap, HashSet};

use super::{Group, Member, Policy, PolicyFault, PolicyLog, PolicyName, PolicyWitness};
use crate::key::VerifierKey;
use crate::text;

/// What the lines so far say.
#[derive(Default)]
pub(super) struct Reader {
    logs: Vec<PolicyLog>,
    log_lines: HashMap<Vec<u8>, usize>,
    witnesses: Vec<PolicyWitness>,
    witness_lines: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    names: HashMap<PolicyName, Member>,
    members: HashSet<PolicyName>,
    quorum: Option<(usize, Option<Member>, PolicyName)>,
}

impl Reader {
    pub(super) fn line(&mut self, number: usize, line: &[u8]) -> Result<(), PolicyFault> {
        if let Some(byte) = line.iter().find(|byte| (**byte < b' ' && **byte != b'\t') || **byte == 0x7f) {
            return Err(PolicyFault::Control(*byte));
        }
        let items: Vec<&[u8]> =
            line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|item| !item.is_empty()).collect();
        match items.as_slice() {
            [] => Ok(()),
            [first, ..] if first.starts_with(b"#") => Ok(()),
            [b"log", items @ ..] => self.log(number, items),
            [b"witness", items @ ..] => self.witness(number, items),
            [b"group", items @ ..] => self.group(items),
            [b"quorum", items @ ..] => self.quorum(number, items),
            [other, ..] => Err(PolicyFault::Keyword(String::from_utf8_lossy(other).into_owned())),
        }
    }

    fn log(&mut self, number: usize, items: &[&[u8]]) -> Result<(), PolicyFault> {
        let (vkey, url) = match items {
            [vkey] => (vkey, None),
            [vkey, url] => (vkey, Some(url.to_vec())),
            _ => return Err(PolicyFault::Items("log <vkey> [<url>]")),
        };
        let key = parse_key(vkey)?;
        if let Some(line) = self.log_lines.insert(key.public_key(), number) {
            return Err(PolicyFault::DuplicateLog(line));
        }
        self.logs.push(PolicyLog { key, url });
        Ok(())
    }

    fn witness(&mut self, number: usize, items: &[&[u8]]) -> Result<(), PolicyFault> {
        let (name, vkey, url) = match items {
            [name, vkey] => (name, vkey, None),
            [name, vkey, url] => (name, vkey, Some(url.to_vec())),
            _ => return Err(PolicyFault::Items("witness <name> <vkey> [<url>]")),
        };
        let key = parse_key(vkey)?;
        if !key.algorithm().is_cosignature() {
            return Err(PolicyFault::NotACosigner(key.algorithm() as u8));
        }
        if let Some(line) = self.witness_lines.insert(key.public_key(), number) {
            return Err(PolicyFault::DuplicateWitness(line));
        }
        let name = self.define(name, Member::Witness(self.witnesses.len()))?;
        self.witnesses.push(PolicyWitness { name, key, url });
        Ok(())
    }

    fn group(&mut self, items: &[&[u8]]) -> Result<(), PolicyFault> {
        let [name, threshold, listed @ ..] = items else {
            return Err(PolicyFault::Items("group <name> <any|all|k> <name>..."));
        };
        if listed.is_empty() {
            return Err(PolicyFault::Items("group <name> <any|all|k> <name>..., with at least one member"));
        }
        let mut members = Vec::with_capacity(listed.len());
        for member in listed {
            let member = PolicyName(member.to_vec());
            let found = *self.lookup(&member)?;
            if !self.members.insert(member.clone()) {
                return Err(PolicyFault::AlreadyMember(member));
            }
            members.push(found);
        }
        let text = std::str::from_utf8(threshold).unwrap_or_default();
        let threshold = match text {
            "any" => Some(1),
            "all" => Some(members.len()),
            digits => text::parse_decimal(digits).and_then(|k| usize::try_from(k).ok()),
        };
        let threshold = threshold
            .filter(|k| (1..=members.len()).contains(k))
            .ok_or_else(|| PolicyFault::Threshold { threshold: text.to_owned(), members: members.len() })?;
        // Defined last: a group cannot be its own member.
        self.define(name, Member::Group(self.groups.len()))?;
        self.groups.push(Group { threshold, members });
        Ok(())
    }

    fn quorum(&mut self, number: usize, items: &[&[u8]]) -> Result<(), PolicyFault> {
        let [name] = items else { return Err(PolicyFault::Items("quorum <name>")) };
        if let Some((line, ..)) = &self.quorum {
            return Err(PolicyFault::SecondQuorum(*line));
        }
        let name = PolicyName(name.to_vec());
        let member = if name.0 == b"none" { None } else { Some(*self.lookup(&name)?) };
        self.quorum = Some((number, member, name));
        Ok(())
    }

    fn define(&mut self, name: &[u8], member: Member) -> Result<PolicyName, PolicyFault> {
        let name = PolicyName(name.to_vec());
        if name.0 == b"none" {
            return Err(PolicyFault::None);
        }
        if self.names.insert(name.clone(), member).is_some() {
            return Err(PolicyFault::DuplicateName(name));
        }
        Ok(name)
    }

    fn lookup(&self, name: &PolicyName) -> Result<&Member, PolicyFault> {
        if name.0 == b"none" {
            return Err(PolicyFault::None);
        }
        self.names.get(name).ok_or_else(|| PolicyFault::Undefined(name.clone()))
    }

    pub(super) fn finish(self) -> Result<Policy, PolicyFault> {
        let (_, quorum, quorum_name) = self.quorum.ok_or(PolicyFault::NoQuorum)?;
        let Self { logs, witnesses, groups, .. } = self;
        Ok(Policy { logs, witnesses, groups, quorum, quorum_name })
    }
}

fn parse_key(vkey: &[u8]) -> Result<VerifierKey, PolicyFault> {
    let vkey = std::str::from_utf8(vkey).map_err(|_| PolicyFault::KeyText)?;
    Ok(vkey.parse()?)
}
