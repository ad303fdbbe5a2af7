import * as v from "valibot";
import type { FullStatus } from "#controller/status.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { integer, object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";

const reason = object({ code: v.string(), text: v.string() });
const count = integer();
const workload = object({ namespace: v.string(), kind: v.string(), name: v.string(), pods: count, stale: count });

/** The fields that every version of the controller writes, and that the commands need. */
const statusSchema = object({
  leader: v.boolean(),
  identity: v.string(),
  warnings: v.array(reason),
  targets: v.array(
    object({
      name: v.string(),
      upstream: v.string(),
      ports: v.array(object({ port: count, asked: v.optional(object({ answer: v.string() })) })),
    }),
  ),
  names: v.array(
    object({
      name: v.string(),
      from: object({ kind: v.string(), namespace: v.string(), name: v.string() }),
      addresses: v.array(v.string()),
      reason: v.optional(reason),
    }),
  ),
  running: v.optional(
    object({
      workloads: v.array(workload),
      counts: v.optional(object({ workloads: count })),
      omitted: v.optional(count),
    }),
  ),
});

/** Checks that a document is a controller's status. Throws `data-corrupt` with the name of the wrong field. */
export function statusFrom(document: unknown): FullStatus {
  const { flaw } = attempt(statusSchema, document);
  if (flaw === undefined) return document as FullStatus;
  const [field = "leader"] = flaw.path;
  throw new SwitchbackError(
    "data-corrupt",
    `the response is not the status of a Switchback controller (its field ${JSON.stringify(field)} is missing ` +
      "or of another type); check which pods the Service switchback-controller selects",
  );
}
