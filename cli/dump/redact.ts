import { rootCertificates } from "node:tls";
import { type Certificate, isSignedBy, parseCertificates, readableAuthorities } from "#certs/pem.ts";
import { isProtocolAnnotation } from "#controller/targets/proxy-protocol-annotations.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { RedactedWords } from "./redacted-words.ts";

// A redacted dump has other words and addresses, each replaced consistently, and the same findings. Only the words of
// our own code stay, and numbers in fields that our code reads.

/** The ports in an annotation about PROXY headers. */
const PORTS = /^\s*\d{1,5}(?:\s*,\s*\d{1,5})*\s*$/;
/** Fields with certificates, whose subjects have names. */
const CERTIFICATES: ReadonlySet<string> = new Set(["caBundle", "tls.crt"]);

export class Redactor {
  readonly #words: RedactedWords;
  /** Certificates, with the number of the root that replaces each. */
  readonly #certificates = new Map<Certificate, number>();

  /** `objects` are all objects of the dump as JSON. `known` are the words that stay, in lower case. */
  constructor(objects: () => Iterable<string>, known: ReadonlySet<string>) {
    this.#words = new RedactedWords(known);
    for (const json of objects()) this.#look(JSON.parse(json) as ApiObject);
  }

  /** Redacts a document of the dump: an object, an answer or a look-up. */
  object(object: object): object {
    return this.#value(object, "") as object;
  }

  #look({ kind, metadata: { namespace, name, labels } = {} }: ApiObject): void {
    if (kind === "Service" && namespace && name) this.#words.addService(namespace, name);
    const hash = labels?.["pod-template-hash"];
    if (hash !== undefined) this.#words.addTemplateHash(hash);
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
    if (CERTIFICATES.has(key)) return this.#rootsFor(text);
    if (PORTS.test(text) && isProtocolAnnotation(key)) return text;
    try {
      if (/^\s*[[{]/.test(text)) return JSON.stringify(this.#value(JSON.parse(text), ""));
    } catch {
      // It only looks like JSON, or is nested too deeply.
    }
    return this.#words.in(text);
  }

  /** Replaces certificates with roots of public authorities. One and its own authority get the same root. */
  #rootsFor(base64: string): string {
    const text = Buffer.from(base64, "base64").toString();
    if (text === "") return "";
    const all = [...firstOf(text), ...readableAuthorities(text)];
    const roots = new Set(all.map((each) => rootCertificates[this.#numberOf(each) % rootCertificates.length]));
    return Buffer.from(roots.size === 0 ? "broken" : [...roots].join("\n")).toString("base64");
  }

  #numberOf(certificate: Certificate): number {
    const isRelated = ([each]: readonly [Certificate, number]) =>
      each.id === certificate.id || isSignedBy(each, certificate) || isSignedBy(certificate, each);
    const [, number] = [...this.#certificates].find(isRelated) ?? [certificate, this.#certificates.size];
    this.#certificates.set(certificate, number);
    return number;
  }
}

/** The first certificate, which a server shows. Empty if the text has one that does not parse. */
function firstOf(text: string): Certificate[] {
  try {
    return parseCertificates(text).slice(0, 1);
  } catch {
    return [];
  }
}
