import { hash } from "node:crypto";

/**
 * Twelve hex digits (48 bits) of SHA-256: short enough for an annotation, and made from tenants' input, so it must be hard to
 * collide on purpose. node:crypto is the one thing that `hostmap/` takes from outside: a digest is a pure function.
 */
export function shortHash(text: string): string {
  return hash("sha256", text, "hex").slice(0, 12);
}

/** 32 bits of SHA-256, to spread names over shards; a tenant who picks names cannot pick their shard cheaply. */
export function spreadHash(text: string): number {
  return Number.parseInt(hash("sha256", text, "hex").slice(0, 8), 16);
}
