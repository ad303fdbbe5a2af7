import type { FullStatus } from "#controller/status.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";

type Check = (value: unknown) => boolean;
const text: Check = (value) => typeof value === "string";
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const object =
  (fields: Readonly<Record<string, Check>>): Check =>
  (value) =>
    typeof value === "object" &&
    value !== null &&
    Object.entries(fields).every(([name, check]) => check((value as Record<string, unknown>)[name]));

const reason = object({ code: text, text });
const count: Check = Number.isSafeInteger;
const workload = object({ namespace: text, kind: text, name: text, pods: count, stale: count });

/** What every version of the controller writes, and the commands cannot do without. By hand: a schema library takes 100 ms to load. */
const FIELDS: Readonly<Record<string, Check>> = {
  leader: (value) => typeof value === "boolean",
  identity: text,
  warnings: listOf(reason),
  names: listOf(
    object({
      name: text,
      from: object({ kind: text, namespace: text, name: text }),
      addresses: listOf(text),
      reason: optional(reason),
    }),
  ),
  running: optional(
    object({
      workloads: listOf(workload),
      counts: optional(object({ workloads: count })),
      omitted: optional(count),
      next: optional(text),
    }),
  ),
};

/** Checks that a document is the controller's status. Throws `data-corrupt` with the field that is not as expected. */
export function statusFrom(document: unknown): FullStatus {
  const fields = typeof document === "object" && document !== null ? (document as Record<string, unknown>) : {};
  const odd = Object.keys(FIELDS).find((name) => FIELDS[name]?.(fields[name]) !== true);
  if (odd === undefined) return fields as unknown as FullStatus;
  throw new SwitchbackError(
    "data-corrupt",
    `the response is not the status of a Switchback controller (its field ${JSON.stringify(odd)} is missing or of another type); is that what the Service switchback-controller leads to?`,
  );
}
