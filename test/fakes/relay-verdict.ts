import assert from "node:assert/strict";
import { LINGER_MS } from "../../proxy/engine.ts";
import type { End } from "./relay-end.ts";

/** Fails unless a client's connection has ended as both of its ends have deserved. */
export function checkEnding(client: End, upstreams: readonly End[], idleTimeoutMs: number): void {
  const { peer: upstream } = client;
  assert.ok(client.isGone, "the client's socket is closed");
  if (client.hasReset) return;
  if (upstream === undefined) {
    if (!hadNothingToSay(client, upstreams))
      assert.equal(client.socket.goneBy, "reset", "a client that found no upstream is reset");
    return;
  }
  assert.ok(upstream.isGone, "the upstream's socket is closed");
  if (wasCut(client, upstream, idleTimeoutMs)) {
    assert.deepEqual([client.socket.goneBy, upstream.socket.goneBy], ["reset", "reset"]);
    return;
  }
  if (upstream.hasReset && !upstream.hasEnded) {
    assert.equal(client.socket.goneBy, "reset", "an upstream's reset is no finished answer");
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
 * Whether a client may have ended well without a byte having been exchanged that would tell its upstream: neither had any to send,
 * and no header was due, or the upstream was gone when it was.
 */
function hadNothingToSay(client: End, upstreams: readonly End[]): boolean {
  const silent = upstreams.filter(({ peer, hasEnded, sent }) => peer === undefined && hasEnded && sent === 0);
  if (!client.hasEnded || silent.length === 0) return false;
  return (client.protocol === "none" && client.sent === 0) || silent.some(({ hasReset }) => hasReset);
}

/** Whether there is a reason for the relay to have ended this connection that lies in neither of its ends. */
function wasCut(client: End, upstream: End, idleTimeoutMs: number): boolean {
  if (client.wasCut || client.socket.isUnwatched || upstream.socket.isUnwatched) return true;
  const since = Math.max(client.bornAt ?? 0, client.movedAt, upstream.movedAt);
  return idleTimeoutMs > 0 && client.socket.goneBy === "reset" && client.goneAt - since >= idleTimeoutMs;
}
