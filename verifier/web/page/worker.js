// One worker answers one question and is thrown away, so that nothing of a file outlives its verdict.
"use strict";

let file = null;
const reader = new FileReaderSync();

// Called by the verifier. It reads front to back, so the offset is the progress.
function readChunk(offset, length) {
  const start = Number(offset);
  try {
    const bytes = new Uint8Array(reader.readAsArrayBuffer(file.slice(start, start + length)));
    postMessage({ done: start + bytes.length });
    return bytes;
  } catch (error) {
    // A string, which the verifier can repeat.
    throw `${error.name}: the file changed or cannot be read any more`;
  }
}

onmessage = ({ data }) => {
  try {
    wasm_bindgen.initSync({ module: data.module });
    postMessage({ answer: data.kindOf ? wasm_bindgen.kindOf(data.kindOf) : judge(data) });
  } catch (error) {
    postMessage({ fault: String(error?.message ?? error) });
  }
};

function judge({ evidence, policy, checkpoint, entry, log, recordKeys, now }) {
  file = evidence;
  const runKey = crypto.getRandomValues(new Uint8Array(16));
  const verifier = new wasm_bindgen.Verifier(evidence.name, policy.bytes, policy.name, runKey);
  if (checkpoint) verifier.checkpoint(checkpoint.bytes);
  if (entry) verifier.entry(entry.bytes);
  if (log) verifier.log(log);
  if (recordKeys) verifier.recordKeys(recordKeys);
  return verifier.judge(BigInt(now));
}
