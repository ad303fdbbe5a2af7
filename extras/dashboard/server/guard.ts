import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

/**
 * Sent with every answer. Nothing is loaded from elsewhere, nothing in the page can be markup or script, and no
 * other page sees it.
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
 * Whether the browser asked for this server by its own name. A page elsewhere whose name leads to 127.0.0.1 (DNS
 * rebinding) has its own name in `Host`.
 */
export function isOwnHost({ headers, socket }: IncomingMessage): boolean {
  return NAMES_OF_LOOPBACK.some((name) => headers.host === `${name}:${socket.localPort}`);
}

/**
 * Whether another page sent the request. Browsers say so in `Sec-Fetch-Site` or `Origin`; the page itself may be
 * opened from anywhere, as its address is the secret.
 */
export function isOfOtherPage({ headers }: IncomingMessage): boolean {
  const { origin, host } = headers;
  if (origin !== undefined && origin !== `http://${host}`) return true;
  const site = headers["sec-fetch-site"];
  if (site === undefined || site === "same-origin" || site === "none") return false;
  return headers["sec-fetch-mode"] !== "navigate" || headers["sec-fetch-dest"] !== "document";
}

/** The rest of a path that begins with `/<token>/`; undefined for any other. Takes as long whatever the token is. */
export function behindToken(path: string, token: string): string | undefined {
  const prefix = `/${token}/`;
  const given = Buffer.from(path.slice(0, prefix.length).padEnd(prefix.length, " "), "latin1");
  return timingSafeEqual(given, Buffer.from(prefix, "latin1")) ? path.slice(prefix.length) : undefined;
}
