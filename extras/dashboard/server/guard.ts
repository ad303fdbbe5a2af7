import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

/**
 * Headers of every answer. The page loads nothing from elsewhere, no text in the page can become markup or script,
 * and no other page can read it.
 */
export const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; "),
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

const NAMES_OF_LOOPBACK: readonly string[] = ["127.0.0.1", "localhost"];

/**
 * Whether `Host` has a name of this server. A page elsewhere whose name resolves to 127.0.0.1 (DNS rebinding) sends
 * its own name in `Host`.
 */
export function isOwnHost({ headers, socket }: IncomingMessage): boolean {
  return NAMES_OF_LOOPBACK.some((name) => headers.host === `${name}:${socket.localPort}`);
}

/**
 * Whether another page sent the request. Browsers say so in `Sec-Fetch-Site` or `Origin`. A person may open the page
 * from anywhere, because its address is the secret.
 */
export function isOfOtherPage({ headers }: IncomingMessage): boolean {
  const { origin, host } = headers;
  if (origin !== undefined && origin !== `http://${host}`) return true;
  const site = headers["sec-fetch-site"];
  if (site === undefined || site === "same-origin" || site === "none") return false;
  return headers["sec-fetch-mode"] !== "navigate" || headers["sec-fetch-dest"] !== "document";
}

/**
 * The rest of a path that begins with `/<token>/`; undefined for any other path. The comparison takes constant time.
 */
export function behindToken(path: string, token: string): string | undefined {
  const prefix = `/${token}/`;
  const given = Buffer.from(path.slice(0, prefix.length).padEnd(prefix.length, " "), "latin1");
  return timingSafeEqual(given, Buffer.from(prefix, "latin1")) ? path.slice(prefix.length) : undefined;
}
