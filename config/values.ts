import { isIP } from "node:net";
import { z } from "zod";
import { isGlob, parseGlob } from "../hostmap/hostnames.ts";
import { jsonPathFault } from "./json-path.ts";

// What single settings may hold.

/** A TCP port, 1-65535. */
export const port = z.int().min(1).max(65535);
/** A duration in seconds. Node's timers hold 2^31 - 1 ms and turn anything above into 1 ms. */
export const seconds = z.number().min(0).max(2_000_000);
/** An RFC 1123 label, what Kubernetes takes for most object names that end up in a DNS name. */
export const label = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be a lower-case RFC 1123 label");
/** A zone (`fe80::1%eth0`) means nothing in another machine's hosts file. */
export const ip = z
  .string()
  .refine((text) => isIP(text) !== 0 && !text.includes("%"), "must be an IPv4 or IPv6 address, without a zone");
const GLOB_FORMS = "must be a name (`api.example.com`), everything below one (`*.example.com`, at any depth) or `*`";
/** The regular expression is for editors and the chart; what a pattern is says `parseGlob`. */
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
  .refine((text) => isIP(text) !== 0 || !text.includes(":"), "must have no port; ports are set under `ports`");

/** A JSONPath as RFC 9535 has it, from the top of an object. */
export const path = z.string().superRefine((text, context) => {
  const fault = jsonPathFault(text);
  if (fault === undefined) return;
  const message = `is no JSONPath (RFC 9535), such as \`$.spec.hosts[*]\`: ${fault}`;
  context.addIssue({ code: "custom", message });
});
