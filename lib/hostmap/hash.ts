import { createHash, hash } from "node:crypto";

/**
 * The first 12 hex digits (48 bits) of SHA-256. This is short enough for an annotation. It is cryptographic because
 * tenants control the input and could otherwise produce collisions. node:crypto is the only import from outside
 * `hostmap/`: a digest is a pure function.
 *
 * @param text a text, or its parts: a long text is not copied.
 */
export function shortHash(text: string | readonly string[]): string {
  const digest = createHash("sha256");
  for (const part of [text].flat()) digest.update(part);
  return digest.digest("hex").slice(0, 12);
}

/** The first 32 bits of SHA-256, to distribute names. A tenant cannot cheaply choose names that collide. */
export function spreadHash(text: string): number {
  return Number.parseInt(hash("sha256", text, "hex").slice(0, 8), 16);
}
