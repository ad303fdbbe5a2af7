import assert from "node:assert/strict";
import { LINGER_MS } from "../../proxy/engine.ts";
import type { End } from "./relay-end.ts";

/** Fails unless a client's connection has ended as the actions of both ends require. */
export function checkEnding(client: End, upstreams: readonly End[], idleTimeoutMs: number): void {
  const { peer: upstream } = client;
  assert.ok(client.isGone, "the client's socket is closed");
  if (client.hasReset) return;
  if (upstream === undefined) {
    if (!hadNothingToSend(client, upstreams))
      assert.equal(client.socket.goneBy, "reset", "a client that found no upstream is reset");
    return;
  }
  assert.ok(upstream.isGone, "the upstream's socket is closed");
  if (wasCut(client, upstream, idleTimeoutMs)) {
    assert.deepEqual([client.socket.goneBy, upstream.socket.goneBy], ["reset", "reset"]);
    return;
  }
  if (upstream.hasReset && !upstream.hasEnded) {
    assert.equal(client.socket.goneBy, "reset", "an upstream's reset is not a finished answer");
    return;
  }
  const lingered = client.goneAt - upstream.resetAt >= LINGER_MS && client.socket.goneBy === "reset";
  if (upstream.hasReset && lingered) return;
  assert.equal(client.got, upstream.sent, "all of the upstream's bytes have arrived");
  if (upstream.hasReset) return;
  assert.equal(upstream.got, client.sent, "all of the client's bytes have arrived");
  assert.deepEqual([client.socket.goneBy, upstream.socket.goneBy], ["fin", "fin"]);
}

/**
 * Whether a client may have ended regularly without exchanging a byte that would identify its upstream: neither end had bytes to
 * send, and no header was due, or the upstream had reset by then.
 */
function hadNothingToSend(client: End, upstreams: readonly End[]): boolean {
  const silent = upstreams.filter(({ peer, hasEnded, sent }) => peer === undefined && hasEnded && sent === 0);
  if (!client.hasEnded || silent.length === 0) return false;
  return (client.protocol === "none" && client.sent === 0) || silent.some(({ hasReset }) => hasReset);
}

/** Whether the relay had a reason of its own to end this connection, independent of both ends. */
function wasCut(client: End, upstream: End, idleTimeoutMs: number): boolean {
  if (client.wasCut || client.socket.isUnwatched || upstream.socket.isUnwatched) return true;
  const since = Math.max(client.bornAt ?? 0, client.movedAt, upstream.movedAt);
  return idleTimeoutMs > 0 && client.socket.goneBy === "reset" && client.goneAt - since >= idleTimeoutMs;
}
