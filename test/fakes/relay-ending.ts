import assert from "node:assert/strict";
import { type EngineLimits, LINGER_MS } from "#proxy/engine.ts";
import type { End } from "./relay-end.ts";

type Timeouts = Pick<EngineLimits, "idleTimeoutMs" | "halfClosedMs">;

/** Fails unless a client's connection has ended as the actions of both ends require. */
export function checkEnding(client: End, upstreams: readonly End[], limits: Timeouts): void {
  const { peer: upstream } = client;
  assert.ok(client.isGone, "the client's socket is closed");
  if (client.hasReset) return;
  if (upstream === undefined) {
    if (!hadNothingToSend(client, upstreams, limits))
      assert.equal(client.socket.goneBy, "reset", "a client that found no upstream is reset");
    return;
  }
  assert.ok(upstream.isGone, "the upstream's socket is closed");
  if (wasCut(client, upstream, limits)) {
    assert.deepEqual([client.socket.goneBy, upstream.socket.goneBy], ["reset", "reset"]);
    return;
  }
  if (hasIgnoredFin(client, upstream, limits)) {
    assert.equal(upstream.socket.goneBy, "reset");
    if (client.socket.goneBy === "fin") assert.equal(client.got, upstream.sent, "the whole answer has arrived");
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
 * Whether a client may have ended regularly without exchanging a byte that would identify its upstream. Neither end
 * had bytes to send, and either no header was due or the upstream had reset by then.
 */
function hadNothingToSend(client: End, upstreams: readonly End[], { halfClosedMs }: Timeouts): boolean {
  const silent = upstreams.filter(({ peer, hasEnded, sent }) => peer === undefined && hasEnded && sent === 0);
  // The upstream ended without sending anything, and the client ignored that.
  if (halfClosedMs > 0 && silent.some(({ socket }) => socket.goneBy === "reset")) return true;
  if (!client.hasEnded || silent.length === 0) return false;
  return (client.protocol === "none" && client.sent === 0) || silent.some(({ hasReset }) => hasReset);
}

/** Whether the relay had another reason to end this connection, independent of both ends. */
function wasCut(client: End, upstream: End, { idleTimeoutMs }: Timeouts): boolean {
  if (client.wasCut || client.socket.isUnwatched || upstream.socket.isUnwatched) return true;
  return idleTimeoutMs > 0 && client.socket.goneBy === "reset" && silenceOf(client, upstream) >= idleTimeoutMs;
}

/** Whether the relay may have ended the connection because no bytes moved after the upstream's FIN. */
function hasIgnoredFin(client: End, upstream: End, { halfClosedMs }: Timeouts): boolean {
  const isEndedByRelay = upstream.hasEnded && upstream.socket.goneBy === "reset";
  const silence = Math.min(silenceOf(client, upstream), client.goneAt - upstream.endedAt);
  return halfClosedMs > 0 && isEndedByRelay && silence >= halfClosedMs;
}

/** Time without a read from either end before the connection was closed, in milliseconds. */
function silenceOf(client: End, upstream: End): number {
  return client.goneAt - Math.max(client.bornAt ?? 0, client.movedAt, upstream.movedAt);
}
