"use strict";

// Longest of the small files; the verifier knows the limit of each kind.
const SMALL_BYTES = 4 * 1024 * 1024;
// Findings and gaps shown; the JSON has them all.
const SHOWN = 200;

const id = (name) => document.getElementById(name);
const given = { evidence: null, policy: null, checkpoint: null, entry: null };
const decoded = atob(id("module").textContent);
const module = Uint8Array.from(decoded, (character) => character.charCodeAt(0));
const scripts = URL.createObjectURL(new Blob([id("worker").textContent], { type: "text/javascript" }));
const trusted = globalThis.trustedTypes
  ? trustedTypes.createPolicy("worker", { createScriptURL: () => scripts }).createScriptURL("")
  : scripts;

// ---- asking ------------------------------------------------------------------------------------------------

// Asks in a worker of its own. Answers what the verifier says; stop() gives up.
function ask(question, progress = () => {}) {
  const worker = new Worker(trusted);
  const answer = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if ("done" in data) return progress(data.done);
      worker.terminate();
      if ("fault" in data) reject(new Error(data.fault));
      else resolve(JSON.parse(data.answer));
    };
    worker.onerror = (event) => {
      worker.terminate();
      reject(new Error(event.message || "the verifier stopped"));
    };
  });
  worker.postMessage({ module, ...question });
  return { answer, stop: () => worker.terminate() };
}

const read = async (file) => ({
  name: file.name,
  bytes: new Uint8Array(await file.slice(0, SMALL_BYTES + 1).arrayBuffer()),
});

let current = null;

// Checks as soon as there is something to check and somebody to trust.
async function check() {
  current?.stop();
  const turn = { stop: () => {} };
  current = turn;
  id("progress").hidden = true;
  id("result").hidden = true;
  id("spoken").textContent = "";
  id("message").textContent = "";
  document.title = "runseal verifier";
  if (!given.evidence) return;
  const evidence = given.evidence;
  if (!given.policy) {
    return show(evidence, {
      word: "NOT CHECKED",
      sentence: "There is no policy yet. Without one nobody's signature is worth anything, so nothing was checked.",
      tone: "open",
      report: null,
    });
  }
  const bar = id("bar");
  bar.value = 0;
  const shown = setTimeout(() => {
    if (current === turn) id("progress").hidden = false;
  }, 150);
  try {
    const small = async (name) => (given[name] ? read(given[name]) : null);
    const [policy, checkpoint, entry] = await Promise.all(["policy", "checkpoint", "entry"].map(small));
    if (current !== turn) return;
    const question = {
      evidence, policy, checkpoint, entry,
      log: id("log").value.trim(),
      recordKeys: id("record-keys").value,
      now: Math.floor(Date.now() / 1000),
    };
    const asked = ask(question, (done) => {
      if (current !== turn || !evidence.size) return;
      bar.value = done / evidence.size;
      id("progress-text").textContent = `Checking ${evidence.name}: ${percent(done / evidence.size)}`;
    });
    turn.stop = asked.stop;
    const answer = await asked.answer;
    if (current === turn) show(evidence, answer);
  } catch (error) {
    if (current !== turn) return;
    show(evidence, {
      word: "NOT CHECKED",
      sentence: `The check did not come to an end: ${error.message}.`,
      tone: "open",
      report: null,
    });
  } finally {
    clearTimeout(shown);
    if (current === turn) id("progress").hidden = true;
  }
}

const percent = (part) => `${Math.min(100, Math.floor(part * 100))} %`;

// ---- what was given ------------------------------------------------------------------------------------------

function give(name, file) {
  given[name] = file;
  if (name === "policy") id("policy-text").value = "";
  const chosen = id(`${name}-chosen`);
  chosen.hidden = !file;
  chosen.replaceChildren();
  id(name).classList.toggle("filled", Boolean(file));
  if (!file) return;
  const remove = element("button", { type: "button", className: "link" }, "Remove");
  remove.setAttribute("aria-label", `Remove ${harmless(file.name)}`);
  remove.onclick = () => {
    give(name, null);
    id(`${name}-file`).value = "";
    id(`${name}-file`).focus();
    check();
  };
  chosen.append(element("strong", {}, harmless(file.name)), ` ${size(file.size)} `, remove);
}

// A name with the characters spelled out that would mislead a reader, as reports do it.
const harmless = (text) =>
  text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);

function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  const unit = bytes < 1024 ** 2 ? ["KiB", 1024] : bytes < 1024 ** 3 ? ["MiB", 1024 ** 2] : ["GiB", 1024 ** 3];
  return `${(bytes / unit[1]).toFixed(1)} ${unit[0]}`;
}

// Files dropped anywhere: each goes where files of its kind go.
async function drop(files) {
  const told = [];
  let more = false;
  for (const file of files) {
    let kind = null;
    try {
      const start = new Uint8Array(await file.slice(0, SMALL_BYTES).arrayBuffer());
      kind = await ask({ kindOf: start }).answer;
    } catch (error) {
      told.push({ text: `${harmless(file.name)} cannot be read: ${error.message}` });
      continue;
    }
    const place = { policy: "policy", checkpoint: "checkpoint" }[kind] ?? "evidence";
    if (place === "evidence" && told.some((other) => other.place === place)) {
      told.push({ text: `${harmless(file.name)} was left aside: one piece of evidence at a time.` });
      continue;
    }
    more ||= place === "checkpoint";
    give(place, file);
    told.push({ place });
  }
  if (more) id("more").open = true;
  check();
  id("message").textContent = told.map((one) => one.text ?? "").join(" ").trim();
}

for (const name of Object.keys(given)) {
  id(`${name}-file`).onchange = ({ target }) => {
    if (!target.files.length) return;
    give(name, target.files[0]);
    check();
  };
}
id("question").onsubmit = (event) => event.preventDefault();
id("paste").onclick = () => {
  id("paste-field").hidden = false;
  id("policy-text").focus();
};
let typing = null;
const later = (action) => () => {
  clearTimeout(typing);
  typing = setTimeout(action, 300);
};
id("policy-text").oninput = later(() => {
  const text = id("policy-text").value;
  const file = text.trim() ? new File([text], "pasted-policy.txt") : null;
  given.policy = file;
  id("policy-chosen").hidden = true;
  id("policy").classList.toggle("filled", Boolean(file));
  check();
});
id("log").oninput = later(check);
id("record-keys").oninput = later(check);
id("cancel").onclick = () => {
  current?.stop();
  current = null;
  id("progress").hidden = true;
  id("message").textContent = "Stopped. Nothing was checked.";
};

let depth = 0;
const curtain = (shown) => {
  id("curtain").hidden = !shown;
};
addEventListener("dragenter", (event) => {
  event.preventDefault();
  depth += 1;
  curtain(true);
});
addEventListener("dragleave", () => {
  depth -= 1;
  if (depth <= 0) curtain(false);
});
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => {
  event.preventDefault();
  depth = 0;
  curtain(false);
  if (event.dataTransfer.files.length) drop([...event.dataTransfer.files]);
});

// ---- showing -------------------------------------------------------------------------------------------------

// Every text becomes a text node; the page's security policy refuses markup from strings.
function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

function show(evidence, answer) {
  id("progress").hidden = true;
  document.title = `${answer.word}: runseal verifier`;
  const members = answer.report?.members;
  id("verdict").className = `verdict ${answer.tone}`;
  id("verdict-of").textContent = harmless(evidence.name);
  id("verdict-word").textContent = answer.word;
  id("verdict-sentence").textContent = answer.sentence;
  const about = id("verdict-about");
  about.hidden = !members?.log;
  if (members?.log) about.textContent = `${members.log.origin} at ${members.log.size} entries: ${SCOPES[members.scope]}.`;
  const gaps = members?.not_checked.length ?? 0;
  const aside = id("verdict-aside");
  aside.hidden = gaps === 0;
  aside.textContent = `${gaps === 1 ? "One thing was" : `${gaps} things were`} not checked: see below.`;
  // Spoken from an element that is always there; one that appears is not read out everywhere.
  id("spoken").textContent = `${answer.word}. ${answer.sentence} ${gaps ? aside.textContent : ""}`;
  id("details").replaceChildren(...(answer.report ? report(evidence, answer) : []));
  id("result").hidden = false;
  id("verdict").scrollIntoView({ block: "nearest" });
}

function report(evidence, { report: { json, html, members, in_scope } }) {
  return [
    found(members.findings),
    notChecked(members.not_checked, in_scope),
    checks(members.checks),
    cosignatures(members.cosignatures),
    facts(members),
    keep(evidence, json, html),
    command(evidence, members),
  ].filter(Boolean);
}

function section(title, ...children) {
  return element("section", {}, element("h3", {}, title), children);
}

function limited(items, make) {
  const list = items.slice(0, SHOWN).map(make);
  if (items.length > SHOWN) list.push(element("li", {}, `… and ${items.length - SHOWN} more: the JSON has them all.`));
  return list;
}

function found(findings) {
  if (!findings.length) return null;
  const item = ({ kind, run, index, seq, detail }) =>
    element("li", {},
      element("p", { className: "where" },
        tag("bad", kind),
        run === undefined ? null : element("span", {}, "run ", element("code", {}, run)),
        index === undefined ? null : element("span", {}, `entry ${index}`),
        seq === undefined ? null : element("span", {}, `record ${seq}`)),
      element("p", {}, detail));
  return section(`Found (${findings.length})`, element("ul", { className: "items" }, limited(findings, item)));
}

function notChecked(items, inScope) {
  if (!items.length) return section("Not checked", element("p", {}, "Nothing in scope was left out."));
  const item = ({ what, why }, at) =>
    element("li", {},
      element("p", { className: "where" },
        inScope[at] ? tag("open", "in scope") : tag("", "out of scope"), element("strong", {}, what)),
      element("p", {}, why));
  return section(`Not checked (${items.length})`, element("ul", { className: "items" }, limited(items, item)));
}

const MARKS = {
  passed: ["good", "holds"], failed: ["bad", "failed"], skipped: ["", "not made"],
  valid: ["good", "valid"], invalid: ["bad", "invalid"], unknown: ["", "unknown witness"],
};

const tag = (tone, text) => element("span", { className: `tag ${tone}` }, text);

function checks(list) {
  if (!list.length) return null;
  const item = ({ check, status, detail }) =>
    element("li", {}, tag(...MARKS[status]), element("div", {},
      element("strong", {}, check), " ", element("span", { className: "dim" }, detail)));
  return section("Checks", element("ul", { className: "rows" }, list.map(item)));
}

function cosignatures(list) {
  if (!list.length) return null;
  const item = ({ witness, time, status }) =>
    element("li", {}, tag(...MARKS[status]), element("div", {},
      element("strong", {}, witness), " ", element("span", { className: "dim" }, time === null ? "without a time" : spell(time))));
  return section("Cosignatures", element("ul", { className: "rows" }, limited(list, item)));
}

function spell(seconds) {
  const date = new Date(seconds * 1000);
  return Number.isNaN(date.valueOf()) ? `POSIX time ${seconds}` : date.toISOString().replace(".000Z", "Z");
}

const SCOPES = {
  "export": "an export of the whole log", "export-partial": "an export of chosen runs",
  "proof": "one proof", "fraud-proof": "two signed checkpoints",
};

function facts({ scope, log, quorum, counts }) {
  const rows = [["Scope", SCOPES[scope]]];
  if (log) rows.push(["Log", log.origin], ["Size", `${log.size} entries`], ["Root", log.root]);
  rows.push(["Quorum", quorum ? `${quorum.name}: ${quorum.met ? "met" : "not met"}` : "none asked for, or not reached"]);
  rows.push(["Checked", `${counts.entries} entries, ${counts.runs} runs, ${counts.records} records; ${counts.bytes} bytes read`]);
  const list = element("dl", {}, rows.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  const note = log?.checkpoint
    ? element("details", {}, element("summary", {}, "The signed checkpoint"), element("pre", {}, log.checkpoint))
    : null;
  return section("What it is about", list, note);
}

function keep(evidence, json, html) {
  const stem = evidence.name.replace(/\.[^.]*$/, "") || "report";
  const save = (label, text, type, ending) => {
    const link = element("a", { className: "button", download: `${stem}.report.${ending}` }, label);
    link.href = URL.createObjectURL(new Blob([text], { type }));
    return link;
  };
  return section("Keep the report",
    element("p", { className: "buttons" },
      save("Save as JSON", `${json}\n`, "application/json", "json"),
      save("Save as a page", html, "text/html", "html")),
    element("details", {}, element("summary", {}, "The JSON, as the command writes it"),
      element("pre", { id: "json" }, json)));
}

// The same check with the command, for those who keep a record of what they did.
function command(evidence, { command: verb }) {
  const quote = (text) => (/^[\w.,/@%+=:-]+$/.test(text) ? text : `'${harmless(text).replaceAll("'", "'\\''")}'`);
  const words = ["runseal-verifier", verb, quote(evidence.name), "--policy", quote(given.policy.name)];
  const option = (name, value) => value && words.push(name, quote(value));
  if (verb === "export") {
    option("--checkpoint", given.checkpoint?.name);
    for (const vkey of id("record-keys").value.split("\n")) option("--record-key", vkey.trim());
  }
  if (verb === "proof") {
    option("--entry", given.entry?.name);
    option("--log", id("log").value.trim());
  }
  return section("The same with the command", element("pre", { className: "wrap" }, words.join(" ")));
}
