// Returns the verdicts of ajv, hyperjump and V8's regular expressions: one line of JSON for each line of JSON.
//
// {dialect, formats, schema, texts: [text]}  ->  {ajv: opinion, hyperjump: opinion, flags}
// {pattern, texts: [string]}                 ->  {v8: opinion, flags}
//
// `opinion` is {verdicts: "vixe", whys}: valid, invalid, not JSON or error for each text, and the reasons of the latter two by
// number. If the schema or pattern is rejected, each text gets "r". `flags` is "" if a pattern is valid only without the flag "u".

import { createInterface } from "node:readline";
import vm from "node:vm";

import AjvDraft04 from "ajv-draft-04";
import Ajv from "ajv";
import Ajv2019 from "ajv/dist/2019.js";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { removeUriSchemePlugin } from "@hyperjump/browser";
import { registerSchema, unregisterSchema, setShouldValidateFormat, validate } from "@hyperjump/json-schema/draft-2020-12";
import "@hyperjump/json-schema/draft-2019-09";
import "@hyperjump/json-schema/draft-07";
import "@hyperjump/json-schema/draft-06";
import "@hyperjump/json-schema/draft-04";
import "@hyperjump/json-schema/formats";
import { setFormatHandler } from "@hyperjump/json-schema/experimental";

// hyperjump logs identifiers that it cannot parse
console.log = () => {};

const PATIENCE = { timeout: 400 };
const FORMATS = [
  "date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
  "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex",
];

// compile a pattern with the flag `u`, or without it if it is valid only then
function regExp(pattern) {
  try {
    return new RegExp(pattern, "u");
  } catch (error) {
    try {
      return new RegExp(pattern);
    } catch {
      throw error;
    }
  }
}

// stop after a timeout: V8's patterns can take exponential time
function bounded(work) {
  globalThis.work = work;
  return vm.runInThisContext("work()", PATIENCE);
}

const english = (error) => String(error?.message ?? error).slice(0, 300);
const reject = (error, texts) => ({ verdicts: "r".repeat(texts.length), whys: texts.map(() => english(error)) });

function decide(texts, isValid, parse = JSON.parse) {
  let verdicts = "";
  const whys = {};
  for (const [number, text] of texts.entries()) {
    let instance;
    try {
      instance = parse(text);
    } catch {
      verdicts += "x";
      continue;
    }
    try {
      verdicts += bounded(() => isValid(instance)) ? "v" : "i";
    } catch (error) {
      verdicts += "e";
      whys[number] = english(error);
    }
  }
  return { verdicts, whys };
}

// ajv

const CLASSES = {
  "draft-04": AjvDraft04.default ?? AjvDraft04,
  "draft-06": Ajv.default ?? Ajv,
  "draft-07": Ajv.default ?? Ajv,
  "2019-09": Ajv2019.default ?? Ajv2019,
  "2020-12": Ajv2020.default ?? Ajv2020,
};
const require = createRequire(import.meta.url);
const read = (name) => JSON.parse(readFileSync(require.resolve(name), "utf-8"));
const engine = Object.assign((pattern) => regExp(pattern), { code: "regExp" });

function newAjv(dialect, formats) {
  const options = { strict: false, logger: false, addUsedSchema: false, validateFormats: formats, code: { regExp: engine } };
  const ajv = new CLASSES[dialect](options);
  if (dialect === "draft-06") ajv.addMetaSchema(read("ajv/dist/refs/json-schema-draft-06.json"));
  (addFormats.default ?? addFormats)(ajv, FORMATS.filter((name) => !/^i(dn|ri)/.test(name)));
  return ajv;
}

const METASCHEMA = /^https?:\/\/json-schema\.org\//;
const ajvs = {};

function askAjv({ dialect, formats, schema, texts }) {
  const name = `${dialect} ${formats}`;
  const ajv = (ajvs[name] ??= newAjv(dialect, formats));
  let isValid;
  try {
    isValid = ajv.compile(schema);
  } catch (error) {
    return reject(error, texts);
  } finally {
    const identifier = schema?.$id ?? schema?.id ?? "";
    if (typeof identifier !== "string" || METASCHEMA.test(identifier)) {
      // such a schema replaces ajv's metaschema of that name, or cannot be removed by its identifier
      delete ajvs[name];
    } else if (typeof schema === "object") {
      ajv.removeSchema(schema);
    }
  }
  // `$async` is an extension of ajv whose results are promises
  return isValid.$async ? reject("$async", texts) : decide(texts, isValid);
}

// hyperjump: must not fetch anything, and asserts the formats of 2020-12 in every dialect, as the judge does

for (const scheme of ["http", "https", "file"]) removeUriSchemePlugin(scheme);
const DIALECTS = {
  "draft-04": "http://json-schema.org/draft-04/schema",
  "draft-06": "http://json-schema.org/draft-06/schema",
  "draft-07": "http://json-schema.org/draft-07/schema",
  "2019-09": "https://json-schema.org/draft/2019-09/schema",
  "2020-12": "https://json-schema.org/draft/2020-12/schema",
};
for (const dialect of ["draft-04", "draft-06", "draft-07", "draft-2019-09", "draft-2020-12"]) {
  for (const format of FORMATS) {
    setFormatHandler(`https://json-schema.org/keyword/${dialect}/format`, format, `https://json-schema.org/format/${format}`);
  }
}

async function askHyperjump({ dialect, formats, schema, texts }) {
  const uri = "tag:differential,2026:schema";
  setShouldValidateFormat(formats);
  try {
    registerSchema(schema, uri, DIALECTS[dialect]);
    const check = await validate(uri);
    return decide(texts, (instance) => check(instance).valid);
  } catch (error) {
    return reject(error, texts);
  } finally {
    unregisterSchema(uri);
  }
}

// V8

function askV8({ pattern, texts }) {
  let expression;
  try {
    expression = regExp(pattern);
  } catch (error) {
    return { v8: reject(error, texts), flags: "" };
  }
  return { v8: decide(texts, (text) => expression.test(text), String), flags: expression.flags };
}

// return the flags with which all patterns of a schema are valid
function flagsOf(value) {
  if (typeof value !== "object" || value === null) return "u";
  const patterns = typeof value.pattern === "string" ? [value.pattern] : [];
  if (typeof value.patternProperties === "object") patterns.push(...Object.keys(value.patternProperties ?? {}));
  const legacy = (pattern) => {
    try {
      return regExp(pattern).flags === "";
    } catch {
      return false;
    }
  };
  return patterns.some(legacy) || Object.values(value).some((inner) => flagsOf(inner) === "") ? "" : "u";
}

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  if ("pattern" in question) {
    process.stdout.write(JSON.stringify(askV8(question)) + "\n");
  } else {
    const answer = { ajv: askAjv(question), hyperjump: await askHyperjump(question), flags: flagsOf(question.schema) };
    process.stdout.write(JSON.stringify(answer) + "\n");
  }
}
