import { isIP } from "node:net";
import * as z from "zod";
import { isGlob, parseGlob } from "#hostmap/hostnames.ts";
import { jsonPathError } from "./json-path.ts";

// Types of single settings.

/** A TCP port, 1-65535. */
export const port = z.int().min(1).max(65535);
/** A duration in seconds. Node's timers are limited to 2^31 - 1 ms, and treat anything above as 1 ms. */
export const seconds = z.number().min(0).max(2_000_000);
/** An RFC 1123 label, which Kubernetes requires for most object names that become part of a DNS name. */
export const label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be a lower-case RFC 1123 label");
/** An IP address. A zone (`fe80::1%eth0`) is refused: it has no meaning in another host's hosts file. */
export const ip = z
  .string()
  .refine((text) => isIP(text) !== 0 && !text.includes("%"), "must be an IPv4 or IPv6 address, without a zone");
const GLOB_FORMS =
  "must be a name (`api.example.com`), a wildcard for all names below one (`*.example.com`, at any depth) or `*`";
/** The regular expression is for editors and the chart; `parseGlob` is the actual validation. */
export const glob = z
  .string()
  .regex(/^(\*|(\*|[a-z0-9][-a-z0-9]*)(\.[a-z0-9][-a-z0-9]*)+)$/, { error: GLOB_FORMS, abort: true })
  .refine((text) => isGlob(parseGlob(text)), GLOB_FORMS);
export const domain = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?\.?$/, "must be a lower-case DNS domain, such as `cluster.local`");
export const host = z
  .string()
  .regex(/^[0-9A-Za-z_:.-]+$/, { error: "must be a host name or an IP address", abort: true })
  .refine((text) => isIP(text) !== 0 || !text.includes(":"), "must not have a port; set ports under `ports`");

/** A JSONPath (RFC 9535), relative to the root of an object. */
export const path = z.string().superRefine((text, context) => {
  const error = jsonPathError(text);
  if (error === undefined) return;
  const message = `is not a valid JSONPath (RFC 9535), such as \`$.spec.hosts[*]\`: ${error}`;
  context.addIssue({ code: "custom", message });
});
