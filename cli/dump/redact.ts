import { isIP } from "node:net";
import { isSoftwareName, SOFTWARE_WORDS } from "#controller/sources/known-software.ts";
import { isProtocolAnnotation, PROTOCOL_ANNOTATIONS } from "#controller/targets/proxy-protocol-annotations.ts";
import { canonicalIp, foundName } from "#controller/targets/service-view.ts";
import { ANNOUNCED, PROVIDERS } from "#doctor/providers.ts";
import { stateSchema as publisherState } from "#extras/publishers/publisher-state.ts";
import { foldCase, parentsOf } from "#hostmap/hostnames.ts";
import * as keys from "#hostmap/metadata-keys.ts";
import { BUILT_IN_SUFFIXES } from "#hostmap/protected-names.ts";
import { EXTERNAL_DNS_PREFIXES } from "#lib/config/defaults.ts";
import { isPublicTld, publicTlds } from "#lib/config/public-tlds.ts";
import { configSchemaWith } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { frontName } from "#lib/documents/listeners.ts";
import { statusSchema } from "#lib/documents/status-page.ts";
import { documentSchema as targetsSchema } from "#lib/documents/targets-format.ts";
import { IS_WORD } from "#lib/errors/schemas.ts";
import type { Schema } from "#lib/errors/validation.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { KINDS, READ_ANNOTATIONS } from "./schemas.ts";

// A redacted dump has other words and addresses, each replaced consistently, and the same findings. Its schemas say
// what stays: fields, numbers, and values of enumerations. In other texts only the words that our own code knows stay.

/** Words of names and texts that a decision of our code depends on, besides those of other lists. */
const DECISIVE_WORDS = [
  // Kubernetes' labels, names and versions.
  "kubernetes.io/metadata.name kubernetes.io/service-name app.kubernetes.io/component app.kubernetes.io/instance",
  "service.kubernetes.io/service-proxy-name default kube-system v1 v1alpha1 v1alpha2 v1alpha3 v1beta1 None",
  // Those of implementations.
  "gateway.networking.k8s.io/gateway-name gateway.networking.k8s.io/gateway-class-name coredns external-dns",
  "gateway.envoyproxy.io/owning-gateway-name gateway.envoyproxy.io/owning-gateway-namespace mesh",
  "gateway.envoyproxy.io/owning-gatewayclass projectcontour.io/owning-gateway-name",
  "Host HostHeader HostSNI http https http2 h2c grpc web websecure com net org io www",
  // The values of annotations about PROXY headers.
  "true false none T 0 1 2 v2 v2-ssl v2-ssl-cn proxy proxyv2 tcp send-proxy send-proxy-v2 proxy-protocol nlb",
  "proxy_protocol proxy_protocol_v2.enabled outbound_proxy_protocol external frontends backends properties",
  // Our own names.
  "switchback system controller webhook config map targets publisher agent switchback.dev/publisher",
  "namespace.switchback.dev listed.switchback.dev pod.switchback.dev reachable.switchback.dev",
  "config.yaml hosts targets.json state.json",
  // Paths and answers of API servers.
  "api apis version namespaces secrets status switchback-controller 403 404 500 503 Forbidden NotFound Unauthorized",
  "InternalError cannot create get list watch resource API group failed calling user not found",
];

const LETTER = String.raw`[A-Za-z0-9\u{80}-\u{10ffff}]`;
/** Labels with hyphens inside, joined by dots. */
const WORD = `${LETTER}+(?:(?:-+|\\.)${LETTER}+)*`;
const TIME = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)`;
const IPV4 = String.raw`(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?![\w-]|\.\w)`;
const MAY_BE_IPV6 = `(?<!${LETTER})(?:[0-9A-Fa-f]{0,4}:){2,}[0-9A-Fa-f.:]*(?!${LETTER})`;
const PORT = String.raw`(?<=\.\d{1,3}|\]):\d{1,5}(?![\w.])`;
const IS_TIME_OR_PORT = new RegExp(`^(?:${TIME}|:\\d+)$`);
const WORDS = new RegExp(WORD, "gu");
const TOKENS = new RegExp([TIME, IPV4, PORT, MAY_BE_IPV6, WORD].join("|"), "gu");

/** A value of an enumeration, in a field that has no others. */
const ENUMERATED = /^[A-Za-z_-]{1,40}$/;
/** The ports in an annotation about PROXY headers. */
const PORTS = /^\s*\d{1,5}(?:\s*,\s*\d{1,5})*\s*$/;
/**
 * Names that have a part of ours: of front Services and the agents' Leases, of controllers that name their installation
 * (`INGRESS_NGINX_OWN_CONTROLLERS`), and of IBM Cloud's Services, which have the id of the cluster.
 */
const COMPOUND = new RegExp(
  `^(${frontName("")}(?:agent-)?|ingress-nginx-|(?:public|private)-cr(?=.+-alb))(.+?)((?:-alb\\d+(?:-controller)?)?)$`,
);
/** A label that ends a hostname with an address instead of a domain (`lib/hostmap/hostnames.ts`). */
const NUMERIC = /^(?:[0-9]+|0x[0-9a-f]*)$/;
/** A word that is too long for a name stays so: longer ones keep their length, up to one more than a hostname has. */
const LONG = { from: 41, to: 254 };
/** Addresses that mean the same everywhere. */
const COMMON_ADDRESSES = new Set(["0.0.0.0", "127.0.0.1", "::", "::1"]);
const PRIVATE = /^(?:10\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.|f[cd])/;

/**
 * Replaces every word that our code does not know, always with the same one, and every address with one of its kind.
 * All else of a text stays: a hostname keeps its number of labels, and what was not valid is not valid afterwards.
 */
export class Redactor {
  readonly #known = knownWords();
  /** The schemas of the documents in texts, by the field that has the text. */
  readonly #documents: ReadonlyMap<string, Schema>;
  /** Replacements of labels, by label in lower case. */
  readonly #words = new Map<string, string>();
  readonly #addresses = new Map<string, string>();
  /** Top-level domains that are not used yet. */
  readonly #domains: string[];

  /** `objects` are all objects of the dump. `sections` are those of the extras in the configuration. */
  constructor(objects: Iterable<ApiObject> = [], sections: readonly Section[] = []) {
    this.#documents = new Map<string, Schema>([
      ["config.yaml", configSchemaWith(sections)],
      ["targets.json", targetsSchema],
      ["state.json", publisherState],
      ["text", statusSchema],
    ]);
    this.#domains = [...publicTlds()].filter((domain) => domain.length === 2 && !this.#known.has(domain));
    // The name of a discovered target contains the name of its Service. Both are replaced in the same way.
    for (const { kind, metadata: { namespace, name } = {} } of objects)
      if (kind === "Service" && namespace && name)
        this.#words.set(foundName(namespace, name), foundName(this.#label(namespace), this.#label(name)));
  }

  /** Redacts a value that has this schema. What the schema does not have is replaced, too. */
  redact(schema: Schema, value: object): object {
    return this.#value([schema], value, "") as object;
  }

  /** `key`: the field that has the value. Without a schema, nobody reads the value. */
  #value(schemas: readonly Schema[], value: unknown, key: string): unknown {
    const parts = schemas.flatMap((schema) => [...partsOf(schema)]);
    if (typeof value === "string") return this.#field(parts, value, key);
    if (typeof value === "number")
      return parts.some(({ type, literal }) => type === "number" || literal === value) ? value : 0;
    const items = parts.flatMap(({ item }) => item ?? []);
    if (Array.isArray(value)) return value.map((each) => this.#value(items, each, key));
    if (typeof value !== "object" || value === null) return value;
    const fields = Object.entries(value).map(([name, field]) => {
      const own = parts.flatMap(({ entries = {} }) => (Object.hasOwn(entries, name) ? (entries[name] ?? []) : []));
      const inner = own.length > 0 ? own : parts.flatMap((each) => each.value ?? []);
      const shown = own.length > 0 || isProtocolAnnotation(name) ? name : this.text(name);
      return [shown, this.#value(inner, field, name)];
    });
    return Object.fromEntries(fields);
  }

  #field(parts: readonly Parts[], text: string, key: string): string {
    const isListed = parts.some(({ options, literal }) => options?.includes(text) || literal === text);
    const isWord = ENUMERATED.test(text) && parts.some(({ metadata }) => metadata === IS_WORD);
    if (isListed || isWord || (PORTS.test(text) && isProtocolAnnotation(key))) return text;
    const schema = this.#documents.get(key);
    try {
      if (schema !== undefined && text.startsWith("{")) return JSON.stringify(this.redact(schema, JSON.parse(text)));
    } catch {
      // It is not JSON, or is nested too deeply.
    }
    return this.text(text);
  }

  text(text: string): string {
    return text.replace(TOKENS, (token) => this.#token(token));
  }

  #token(token: string): string {
    if (IS_TIME_OR_PORT.test(token)) return token;
    if (isIP(token) !== 0) return this.#address(token);
    if (token.includes(":")) return token.replace(WORDS, (word) => this.#token(word));
    // The longest known suffix stays, such as that of a metadata server.
    const suffix = [token, ...parentsOf(token)].find((parent) => parent.includes(".") && this.#isKnown(parent)) ?? "";
    const own = token.slice(0, token.length - suffix.length);
    return own.replace(/[^.]+/g, (label) => this.#label(label)) + suffix;
  }

  #isKnown(word: string): boolean {
    const folded = foldCase(word);
    return this.#known.has(folded) || (isSoftwareName(folded) && !COMPOUND.test(folded));
  }

  #label(label: string): string {
    const folded = foldCase(label);
    let word = this.#words.get(folded);
    if (word === undefined && this.#isKnown(label)) return label;
    word ??= this.#compound(folded) ?? this.#newWord(folded);
    this.#words.set(folded, word);
    return folded === label ? word : word.toUpperCase();
  }

  /** Replaces only the part that our code does not know. */
  #compound(label: string): string | undefined {
    const [, prefix = "", own = "", suffix = ""] = label.length < LONG.to ? (COMPOUND.exec(label) ?? []) : [];
    return own === "" ? undefined : prefix + this.#label(own) + suffix;
  }

  #newWord(label: string): string {
    const number = this.#words.size + 1;
    if (NUMERIC.test(label)) return String(100_000 + number);
    const domain = isPublicTld(label) ? this.#domains.shift() : undefined;
    const isAscii = /^[\0-\x7f]*$/.test(label);
    const word = domain ?? `n${number}${isAscii ? "" : "é"}`;
    return label.length < LONG.from ? word : word.padEnd(Math.min(label.length, LONG.to), "x");
  }

  #address(written: string): string {
    const address = canonicalIp(written);
    if (COMMON_ADDRESSES.has(address)) return address;
    const number = this.#addresses.size + 1;
    const isPrivate = PRIVATE.test(address);
    const next =
      isIP(address) === 6
        ? `${isPrivate ? "fd00" : "2001:db8"}::${number.toString(16)}`
        : `${isPrivate ? 10 : 198}.${18 + (number >> 16)}.${(number >> 8) & 255}.${number & 255}`;
    const replaced = this.#addresses.get(address) ?? next;
    this.#addresses.set(address, replaced);
    return replaced;
  }
}

/** The words that a redacted dump keeps in any text, in lower case. */
function knownWords(): ReadonlySet<string> {
  const texts = [
    ...DECISIVE_WORDS,
    ...[...KINDS].map(([type, { kind }]) => `${type.replace(".", " ")} ${kind}`),
    ...[READ_ANNOTATIONS, PROTOCOL_ANNOTATIONS, SOFTWARE_WORDS, BUILT_IN_SUFFIXES, EXTERNAL_DNS_PREFIXES].flat(),
    ...ANNOUNCED,
    ...PROVIDERS.flatMap(({ annotations }) => annotations),
    ...Object.values(keys).flatMap((key) => (typeof key === "string" ? [key] : [])),
    ...Object.values(keys.USER_KEYS).flatMap(({ values = [] }) => values),
  ];
  const words = texts.flatMap((text) => text.match(WORDS) ?? []).map(foldCase);
  return new Set(words.flatMap((word) => [word, ...parentsOf(word)]));
}

/** The parts of a valibot schema that are read. Which ones exist depends on its kind. */
interface Parts {
  readonly type?: string;
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly wrapped?: Schema;
  readonly item?: Schema;
  readonly value?: Schema;
  readonly options?: readonly (Schema | string)[];
  readonly literal?: unknown;
  readonly pipe?: readonly Schema[];
  readonly metadata?: unknown;
}

/** A schema, and those that it consists of, besides those of its fields and items. */
function* partsOf(schema: Schema): Generator<Parts> {
  const parts = schema as Parts;
  yield parts;
  const [, ...actions] = parts.pipe ?? [];
  for (const inner of [parts.wrapped, ...actions, ...(parts.options ?? [])])
    if (typeof inner === "object") yield* partsOf(inner);
}
