import { hash } from "node:crypto";

/**
 * The first 12 hex digits (48 bits) of SHA-256. This is short enough for an annotation. It is cryptographic because
 * tenants control the input and could otherwise produce collisions. node:crypto is the only import from outside
 * `hostmap/`: a digest is a pure function.
 */
export function shortHash(text: string): string {
  return hash("sha256", text, "hex").slice(0, 12);
}

/**
 * The first 32 bits of SHA-256, to distribute names over shards. A tenant cannot cheaply choose names that share a
 * shard.
 */
export function spreadHash(text: string): number {
  return Number.parseInt(hash("sha256", text, "hex").slice(0, 8), 16);
}
