//! The verifier as functions for scripts.

use std::io::{self, BufReader, Read};

use serde::Serialize;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

use crate::answer::Answer;
use crate::kind::Kind;
use crate::question::Question;

/// Bytes asked for at a time.
const CHUNK_BYTES: usize = 1 << 20;

#[wasm_bindgen]
extern "C" {
    /// The script's own function: up to `length` bytes of the file at hand from `offset` on, none at its end.
    #[wasm_bindgen(catch, js_name = readChunk)]
    fn read_chunk(offset: u64, length: u32) -> Result<Vec<u8>, JsValue>;
}

/// The file at hand, read front to back.
struct FileAtHand {
    offset: u64,
}

impl Read for FileAtHand {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let refused = |error: JsValue| {
            let why = error.as_string().unwrap_or_else(|| "the browser does not give it".to_owned());
            io::Error::other(why)
        };
        let bytes = read_chunk(self.offset, length).map_err(refused)?;
        let room = buffer.get_mut(..bytes.len()).ok_or(io::ErrorKind::InvalidData)?;
        room.copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}

fn file_at_hand() -> BufReader<FileAtHand> {
    BufReader::with_capacity(CHUNK_BYTES, FileAtHand { offset: 0 })
}

/// The kind of a file that begins with `start`.
#[wasm_bindgen(js_name = kindOf)]
pub fn kind_of(start: &[u8]) -> Result<String, JsValue> {
    as_text(&Kind::of(start))
}

/// A question about the file at hand.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Verifier(Question);

#[wasm_bindgen]
impl Verifier {
    /// Asks about the file called `name`, under a policy. `run_key` is 16 random bytes.
    #[wasm_bindgen(constructor)]
    pub fn new(name: String, policy: Vec<u8>, policy_name: String, run_key: &[u8]) -> Result<Self, JsValue> {
        let run_key = run_key.try_into().map_err(|_| JsValue::from_str("a run key has 16 bytes"))?;
        Ok(Self(Question { name, policy, policy_name, run_key, ..Question::default() }))
    }

    /// Holds an export against a checkpoint from elsewhere.
    pub fn checkpoint(&mut self, note: Vec<u8>) {
        self.0.checkpoint = Some(note);
    }

    /// Holds records against keys, a vkey a line.
    #[wasm_bindgen(js_name = recordKeys)]
    pub fn record_keys(&mut self, vkeys: String) {
        self.0.record_keys = vkeys;
    }

    /// Gives the entry that a proof is about.
    pub fn entry(&mut self, entry: Vec<u8>) {
        self.0.entry = Some(entry);
    }

    /// Asks that the entry is in this log.
    pub fn log(&mut self, origin: String) {
        self.0.log = Some(origin);
    }

    /// Judges the file; the answer is JSON. `now` is the time, POSIX seconds.
    pub fn judge(&self, now: u64) -> Result<String, JsValue> {
        as_text(&Answer::new(&self.0.judge(file_at_hand), now).map_err(|error| fault(&error))?)
    }
}

fn as_text(value: &impl Serialize) -> Result<String, JsValue> {
    serde_json::to_string(value).map_err(|error| fault(&error))
}

fn fault(error: &serde_json::Error) -> JsValue {
    JsValue::from_str(&error.to_string())
}
