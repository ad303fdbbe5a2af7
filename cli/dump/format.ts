import * as v from "valibot";
import { integer, object, record, text } from "#lib/errors/schemas.ts";
import { keeping } from "./schemas.ts";

// A dump is a stream of YAML documents: the head, then answers and objects in any order. The program writes each
// document as JSON on one line: JSON is also YAML, and is read fifty times faster.

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
});

export type DumpHead = v.InferOutput<typeof headSchema>;

const PATH_WORDS =
  "dump.switchback.dev Dump Answer api apis version namespaces secrets proxy status switchback-controller http";
const MESSAGE_WORDS =
  "GET POST 403 404 500 503 Forbidden NotFound Unauthorized InternalError cannot create get list watch resource " +
  "API group failed calling webhook user not found";

/** An answer that is not an object; `StoredAnswer` explains each field. */
export const answerSchema = object({
  method: v.picklist(["GET", "POST"]),
  path: keeping(text, PATH_WORDS),
  status: integer(0, 599),
  body: v.optional(record(v.string(), v.unknown())),
  text: v.optional(v.string()),
  contentType: v.optional(keeping(v.string(), "application json text plain charset utf-8")),
  message: v.optional(keeping(v.string(), MESSAGE_WORDS)),
});
