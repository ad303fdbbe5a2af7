import { SOFTWARE_WORDS } from "#controller/targets/known-software.ts";
import { isProtocolAnnotation, PROTOCOL_ANNOTATIONS } from "#controller/targets/proxy-protocol-annotations.ts";
import { statusSchema } from "#doctor/install-documents.ts";
import { ANNOUNCED, PROVIDERS } from "#doctor/providers.ts";
import { stateSchema as publisherState } from "#extras/publishers/publisher-state.ts";
import * as keys from "#hostmap/metadata-keys.ts";
import { BUILT_IN_SUFFIXES } from "#hostmap/protected-names.ts";
import { EXTERNAL_DNS_PREFIXES } from "#lib/config/defaults.ts";
import { configSchemaWith } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { documentSchema as targetsSchema } from "#lib/documents/targets-format.ts";
import type { Schema } from "#lib/errors/validation.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { answerSchema, headSchema } from "./format.ts";
import { KNOWN_CODES } from "./known-codes.ts";
import { RedactedWords, wordsIn } from "./redacted-words.ts";
import { KIND_NAMES, READ_ANNOTATIONS, SCHEMAS } from "./schemas.ts";

// A redacted dump has other words and addresses, each replaced consistently, and the same findings. Only the words of
// our own code stay, and numbers in fields that our code reads.

/** The ports in an annotation about PROXY headers. */
const PORTS = /^\s*\d{1,5}(?:\s*,\s*\d{1,5})*\s*$/;

export class Redactor {
  readonly #words: RedactedWords;

  /** `objects` are all objects of the dump. `sections` are those of the extras in the configuration. */
  constructor(objects: Iterable<ApiObject>, sections: readonly Section[]) {
    this.#words = new RedactedWords(knownWords(sections));
    for (const { kind, metadata: { namespace, name } = {} } of objects)
      if (kind === "Service" && namespace && name) this.#words.addService(namespace, name);
  }

  /** Redacts a document of the dump: an object or an answer. */
  object(object: object): object {
    return this.#value(object, "") as object;
  }

  #value(value: unknown, key: string): unknown {
    if (typeof value === "string") return this.#text(value, key);
    if (typeof value === "number") return this.#words.isKnown(key) ? value : 0;
    if (Array.isArray(value)) return value.map((each) => this.#value(each, key));
    if (typeof value !== "object" || value === null) return value;
    const fields = Object.entries(value).map(([name, field]) => [this.#words.in(name), this.#value(field, name)]);
    return Object.fromEntries(fields);
  }

  /** A text may be a document itself. */
  #text(text: string, key: string): string {
    if (PORTS.test(text) && isProtocolAnnotation(key)) return text;
    try {
      if (/^\s*[[{]/.test(text)) return JSON.stringify(this.#value(JSON.parse(text), ""));
    } catch {
      // It only looks like JSON, or is nested too deeply.
    }
    return this.#words.in(text);
  }
}

/** The words that a redacted dump keeps, in lower case: those of our schemas, of Kubernetes and of known software. */
export function knownWords(sections: readonly Section[]): ReadonlySet<string> {
  const schemas: Schema[] = [
    ...SCHEMAS.values(),
    ...[configSchemaWith(sections), statusSchema, publisherState, targetsSchema],
    ...[headSchema, answerSchema],
  ];
  const texts = [
    ...[
      KNOWN_CODES,
      ...Array.from(KIND_NAMES, ([type, name]) => `${type.replace(".", " ")} ${name}`),
      ...READ_ANNOTATIONS,
      ...PROTOCOL_ANNOTATIONS,
      ...SOFTWARE_WORDS,
    ],
    ...[...BUILT_IN_SUFFIXES, ...EXTERNAL_DNS_PREFIXES, ...ANNOUNCED],
    ...PROVIDERS.flatMap(({ annotations }) => annotations),
    ...Object.values(keys).flatMap((key) => (typeof key === "string" ? [key] : [])),
    ...Object.values(keys.USER_KEYS).flatMap(({ values = [] }) => values),
    ...schemas.flatMap((schema) => [...wordsOf(schema)]),
  ];
  return new Set(texts.flatMap(wordsIn));
}

/** The parts of a valibot schema that are read. Which ones exist depends on its kind. */
interface Parts {
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly wrapped?: Schema;
  readonly item?: Schema;
  readonly value?: Schema;
  readonly options?: readonly (Schema | string)[];
  readonly pipe?: readonly object[];
  readonly metadata?: { readonly words?: string };
}

/** The fields of a schema, the values that it lists, and its marks. */
function* wordsOf(schema: object): Generator<string> {
  const { entries = {}, wrapped, item, value, options = [], pipe = [], metadata } = schema as Parts;
  yield* Object.keys(entries);
  if (metadata?.words !== undefined) yield metadata.words;
  for (const child of [wrapped, item, value, ...options, ...pipe, ...Object.values(entries)]) {
    if (typeof child === "string") yield child;
    else if (child !== undefined) yield* wordsOf(child);
  }
}
