
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
    const bytes = Uint8Array.from(atob(byId(id).textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  if (typeof DecompressionStream === "undefined") {
    byId("count").textContent = "This browser cannot unpack the cases. Every record is in records.jsonl, beside this page.";
    return;
  }
  const { starts, cases, detailed, unlisted } = await unpack("index");
  const wordsOf = (one) => (one.words ??= [one.name, one.outcome, one.message, ...one.keywords].join(" ").toLowerCase());
  const chunks = new Map();
  const detailOf = async (at) => {
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
    for (const value of [...new Set(values)].sort()) {
      const option = element("option", "", value);
      option.value = value;
      byId(id).append(option);
    }
  };
  fill("task", cases.map((one) => one.task));
  fill("outcome", cases.map((one) => one.outcome));
  fill("keyword", cases.flatMap((one) => one.keywords));

  const show = async (at, place) => {
    if (at >= detailed) {
      place.replaceChildren(element("p", "note", "This page has no room for the details of this attempt. Its record is in records.jsonl, beside this page."));
      return;
    }
    const detail = await detailOf(at);
    const parts = [["Verdict", detail.verdict], ["Answer", detail.answer], ["Schema", laidOut(detail.schema)],
      ["Schema that was sent", laidOut(detail.sent)], ["Prompt", detail.prompt], ["Measured", detail.measured]];
    place.replaceChildren();
    for (const [title, text] of parts) {
      if (text) place.append(element("h3", "", title), element("pre", "", text));
    }
  };
  const row = (at) => {
    const one = cases[at];
    const item = element("li");
    const button = element("button", "case");
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    const passed = one.outcome === "passed";
    button.append(element("span", passed ? "good" : "bad", (passed ? "✓ " : "✗ ") + one.outcome + (one.change ? " (" + one.change + ")" : "")),
      element("span", "", one.name), element("span", "", one.message));
    const place = element("div", "detail");
    place.hidden = true;
    button.addEventListener("click", async () => {
      if (place.hidden) await show(at, place);
      place.hidden = !place.hidden;
      button.setAttribute("aria-expanded", String(!place.hidden));
    });
    item.append(button, place);
    return item;
  };

  let found = [];
  let shown = 0;
  const more = () => {
    byId("list").append(...found.slice(shown, shown + step).map(row));
    shown = Math.min(found.length, shown + step);
    byId("more").hidden = shown === found.length;
    byId("count").textContent = found.length + " of " + cases.length + " attempts" + (shown < found.length ? ", the first " + shown + " shown" : "") +
      (unlisted ? "; " + unlisted + " more passed, and are in records.jsonl only" : "");
  };
  const value = (id) => (byId(id) ? byId(id).value : "");
  const apply = () => {
    const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
    const [task, outcome, keyword, change] = ["task", "outcome", "keyword", "change"].map(value);
    found = [];
    cases.forEach((one, at) => {
      if ((!task || one.task === task) && (!outcome || (outcome === "!" ? one.outcome !== "passed" : one.outcome === outcome)) &&
        (!keyword || one.keywords.includes(keyword)) && (!change || one.change === change) &&
        words.every((word) => wordsOf(one).includes(word))) found.push(at);
    });
    shown = 0;
    byId("list").replaceChildren();
    more();
  };
  const open = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* no name that we wrote */ }
    const at = cases.findIndex((one) => one.name === name || one.name.startsWith(name + "["));
    if (!name || at < 0) return;
    byId("filters").reset();
    found = [at];
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
