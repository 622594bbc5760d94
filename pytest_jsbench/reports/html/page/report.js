
"use strict";
(async () => {
  const byId = (id) => document.getElementById(id);
  const step = 100;
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const unpack = async (id) => {
    const text = byId(id).textContent;
    const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  if (typeof DecompressionStream === "undefined") {
    byId("count").textContent = "This browser cannot unpack the cases. Every record is in records.jsonl, next to this page.";
    return;
  }
  // the details follow this script, so that the list need not wait for them
  const whole = new Promise((resolve) => (document.readyState === "loading" ? addEventListener("DOMContentLoaded", resolve) : resolve()));
  const { starts, cases, tasks, outcomes, keywords, detailed, unlisted, variants = [] } = await unpack("index");
  const wordsOf = (one) => (one.words ??= [one.name, one.outcome, one.message, ...one.keywords].join(" ").toLowerCase());
  // of repeats without its number
  const caseOf = (one) => one.name.replace(/\[\d+\]$/, "");
  const chunks = new Map();
  const detailOf = async (at) => {
    await whole;
    const number = starts.findLastIndex((start) => start <= at);
    if (!chunks.has(number)) chunks.set(number, unpack("chunk" + number));
    return (await chunks.get(number))[at - starts[number]];
  };

  // lays out JSON that may be cut short: only the white space between its parts is changed
  const laidOut = (text) => {
    const [json, ...rest] = text.split("\n");
    if (!/^[[{]/.test(json)) return text;
    let level = 0;
    let before = "";
    const lines = [];
    const indented = () => "\n" + "  ".repeat(Math.min(level, 50));
    for (const part of json.match(/"(?:[^"\\]|\\.)*"?|[[\]{},:]|[^"[\]{},:\s]+/g)) {
      const opened = before === "{" || before === "[";
      if (part === "}" || part === "]") level -= 1;
      if (part === "}" || part === "]" ? !opened : opened || before === ",") lines.push(indented());
      lines.push(part === ":" ? ": " : part);
      if (part === "{" || part === "[") level += 1;
      before = part;
    }
    return [lines.join(""), ...rest].join("\n");
  };

  const fill = (id, values) => {
    for (const value of values) {
      const option = element("option", "", value);
      option.value = value;
      byId(id).append(option);
    }
  };
  fill("task", tasks);
  fill("outcome", outcomes);
  fill("keyword", keywords);

  // what a line shows: an attempt, or of variants all attempts at a case
  const byCase = new Map();
  for (const [at, one] of variants.length ? cases.entries() : []) {
    const name = caseOf(one);
    byCase.set(name, byCase.get(name) ?? []).get(name).push(at);
  }
  const groups = variants.length ? [...byCase.values()] : cases.map((_, at) => [at]);
  for (const group of byCase.values()) {
    group.sort((one, other) => cases[one].variant - cases[other].variant || cases[one].name.length - cases[other].name.length || (cases[one].name < cases[other].name ? -1 : 1));
  }

  // an expected instance: beside each value that is not right stands what the answer has
  const marked = (lines) => {
    const made = element("pre");
    for (const [line, found] of lines) {
      made.append(found ? element("mark", "", line) : line, found ? " ← " + found + "\n" : "\n");
    }
    return made;
  };
  const parts = (place, pairs) => {
    for (const [title, text] of pairs) {
      if (text.length) place.append(element("h3", "", title), Array.isArray(text) ? marked(text) : element("pre", "", text));
    }
  };
  const noRoom = () => element("p", "note", "The page would be too large with the details of this attempt. Its record is in records.jsonl, next to this page.");
  const show = async (at, place) => {
    place.replaceChildren();
    if (at >= detailed) {
      place.append(noRoom());
      return;
    }
    const detail = await detailOf(at);
    parts(place, [["Verdict", detail.verdict], ["Next step", detail.next], ["Test", detail.test], ["Answer", detail.answer], ["Reasoning", detail.reasoning], ["Values", detail.values],
      ["Expected", detail.expected], ["Prompt", detail.prompt], ["Schema", laidOut(detail.schema)],
      ["Schema that was sent", laidOut(detail.sent)], ["Measured", detail.measured]]);
  };
  // the answers of all variants beside each other, and once what they have in common
  const compare = async (group, place) => {
    const details = await Promise.all(group.map((at) => (at < detailed ? detailOf(at) : null)));
    const known = details.filter(Boolean);
    const common = (name) => (known.length > 1 && known.every((one) => one[name] === known[0][name]) ? known[0][name] : "");
    const sides = element("div", "sides");
    group.forEach((at, number) => {
      const side = element("div");
      const one = cases[at];
      side.append(element("h3", "side", (variants[one.variant] ?? "of no variant") + " " + one.name.slice(caseOf(one).length)));
      const detail = details[number];
      if (detail) {
        parts(side, [["Verdict", detail.verdict], ["Next step", detail.next], ["Test", detail.test], ["Answer", detail.answer], ["Reasoning", detail.reasoning], ["Values", detail.values], ["Expected", detail.expected], ["Schema that was sent", common("sent") ? "" : laidOut(detail.sent)],
          ["Prompt", common("prompt") ? "" : detail.prompt], ["Measured", detail.measured]]);
      } else {
        side.append(noRoom());
      }
      sides.append(side);
    });
    place.replaceChildren(sides);
    if (known.length) {
      parts(place, [["Prompt", common("prompt")], ["Schema", laidOut(known[0].schema)], ["Schema that was sent", laidOut(common("sent"))]]);
    }
  };
  const toggle = (button, place, fillIn) => {
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    place.hidden = true;
    button.addEventListener("click", async () => {
      if (place.hidden) await fillIn();
      place.hidden = !place.hidden;
      button.setAttribute("aria-expanded", String(!place.hidden));
    });
  };
  const undecided = new Set(["api_error", "unjudged"]);
  // of one variant: whether it passes, and the words for it
  const cell = (group, variant) => {
    const ends = group.filter((at) => cases[at].variant === variant).map((at) => cases[at]);
    const passes = ends.filter((one) => one.outcome === "passed").length;
    const other = ends.find((one) => one.outcome !== "passed");
    const change = ends.map((one) => one.change).find(Boolean);
    return {
      passed: ends.length > 0 && !other,
      failed: ends.some((one) => one.outcome !== "passed" && !undecided.has(one.outcome)),
      text: ends.length === 0 ? "–" : (other ? "✗ " + other.outcome : "✓ passed") +
        (ends.length > 1 ? " " + passes + "/" + ends.length : "") + (change ? " (" + change + ")" : ""),
    };
  };
  const matrixRow = (group) => {
    const button = element("button", "name", caseOf(cases[group[0]]));
    const name = element("th");
    name.scope = "row";
    name.append(button);
    const line = element("tr");
    line.append(name, ...variants.map((_, variant) => {
      const { passed, failed, text } = cell(group, variant);
      return element("td", passed ? "good" : failed ? "bad" : "none", text);
    }));
    const place = element("div", "detail"); // stays in sight where the matrix is wider than the screen
    const across = element("td");
    across.colSpan = variants.length + 1;
    across.append(place);
    const below = element("tr", "below");
    below.append(across);
    toggle(button, below, () => compare(group, place));
    return [line, below];
  };
  const differs = (group, how) => {
    const cells = variants.map((_, variant) => cell(group, variant));
    const passed = cells.some((one) => one.passed);
    return passed && (how === "differ" ? cells.some((one) => one.failed) : cells[how].failed);
  };
  if (variants.length) { // what variants are divided about comes first, then what none of them passed
    const ranks = new Map(groups.map((group) => [group, differs(group, "differ") ? 0 : group.some((at) => cases[at].outcome !== "passed") ? 1 : 2]));
    groups.sort((one, other) => ranks.get(one) - ranks.get(other));
  }
  const row = (group) => {
    if (variants.length) return matrixRow(group);
    const [at] = group;
    const one = cases[at];
    const item = element("li");
    const button = element("button", "case");
    const passed = one.outcome === "passed";
    button.append(element("span", passed ? "good" : "bad", (passed ? "✓ " : "✗ ") + one.outcome + (one.change ? " (" + one.change + ")" : "")),
      element("span", "", one.name), element("span", "", one.message));
    const place = element("div", "detail");
    toggle(button, place, () => show(at, place));
    item.append(button, place);
    return [item];
  };

  let found = [];
  let shown = 0;
  const more = () => {
    byId("list").append(...found.slice(shown, shown + step).flatMap(row));
    shown = Math.min(found.length, shown + step);
    byId("more").hidden = shown === found.length;
    byId("count").textContent = found.length + " of " + groups.length + (variants.length ? " cases" : " attempts") + (shown < found.length ? ", the first " + shown + " shown" : "") +
      (unlisted ? "; " + unlisted + (variants.length ? " more attempts" : " more") + " passed, and are in records.jsonl only" : "");
  };
  const value = (id) => byId(id)?.value ?? "";
  const apply = () => {
    const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
    const [task, outcome, keyword, change, differ] = ["task", "outcome", "keyword", "change", "differ"].map(value);
    const matches = (one) => (!task || one.task === task) && (!outcome || (outcome === "!" ? one.outcome !== "passed" : one.outcome === outcome)) &&
        (!keyword || one.keywords.includes(keyword)) && (!change || one.change === change) &&
        words.every((word) => wordsOf(one).includes(word));
    found = groups.filter((group) => group.some((at) => matches(cases[at])) && (!differ || differs(group, differ)));
    shown = 0;
    byId("list").replaceChildren();
    more();
  };
  const open = () => {
    let name = location.hash.slice(1);
    if (!name) return;
    try { name = decodeURIComponent(name); } catch { /* no name that we wrote */ }
    const at = cases.findIndex((one) => one.name === name || one.name.startsWith(name + "["));
    if (at < 0) return;
    byId("filters").reset();
    found = [groups.find((group) => group.includes(at))];
    shown = 0;
    byId("list").replaceChildren();
    more();
    byId("list").querySelector("button").click();
    byId("cases").scrollIntoView();
  };
  byId("filters").addEventListener("input", apply);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", more);
  window.addEventListener("hashchange", open);
  apply();
  open();
  document.documentElement.dataset.ready = "yes";
})();
