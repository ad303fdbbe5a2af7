import * as v from "valibot";
import { integer, object, record, text } from "#lib/errors/schemas.ts";

// A dump is a stream of YAML documents: the head, then answers, look-ups and objects in any order. The program writes
// each document as JSON on one line: JSON is also YAML, and is read fifty times faster.

export const DUMP_VERSION = "dump.switchback.dev/v1";

/** The schema of the first document. */
export const headSchema = object({
  /** When the cluster was read, RFC 3339. Certificates and Leases are judged at this time. */
  time: v.optional(v.string()),
  /** The version of the program that wrote the dump. */
  program: v.optional(v.string()),
  /** Switchback's namespace. */
  namespace: v.optional(text, "switchback-system"),
  /** The namespace of the doctor's dry run. */
  probeNamespace: v.optional(text, "default"),
  /** The cluster's DNS domain, if it is known. */
  clusterDomain: v.optional(text),
  /** Plurals that do not follow from the kind, by `Kind.group`. */
  resources: v.optional(record(v.string(), text), {}),
});

export type DumpHead = v.InferOutput<typeof headSchema>;

/** An answer that is not an object; `StoredAnswer` explains each field. */
export const answerSchema = object({
  method: v.picklist(["GET", "POST"]),
  path: text,
  status: integer(0, 599),
  body: v.optional(record(v.string(), v.unknown())),
  text: v.optional(v.string()),
  contentType: v.optional(v.string()),
  message: v.optional(v.string()),
});

/** The DNS answer of the cluster for a name. */
export const lookupSchema = object({
  name: text,
  /** Empty if the name does not exist. */
  addresses: v.array(v.string()),
});
