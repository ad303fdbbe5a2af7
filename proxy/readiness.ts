import type { Health } from "#lib/http/listen.ts";
import type { ListenerStatus } from "./engine.ts";
import type { UpstreamState } from "./upstream.ts";

/**
 * Ready while all listeners are bound and the proxy is not stopping. One line per check: `[+]` and `[-]` decide, `[i]`
 * only informs. An unreachable upstream is `[i]`. If it made the proxy unready, the other targets would fail too.
 */
export function relayReadiness(
  listeners: readonly ListenerStatus[] | undefined,
  upstreams: readonly UpstreamState[],
  draining: boolean,
): Health {
  const checks = [
    ...(listeners ?? []).map(({ name, address, port, bound, error }) => ({
      ok: bound,
      text: bound ? `listener ${name}: ${address} port ${port}` : `listener ${name}: not bound (${error ?? "unknown"})`,
    })),
    { ok: listeners !== undefined, text: listeners === undefined ? "starting" : "started" },
    { ok: !draining, text: draining ? "stopping" : "not stopping" },
  ];
  const lines = [
    ...checks.map(({ ok, text }) => `[${ok ? "+" : "-"}] ${text}`),
    ...upstreams.map((upstream) => `[i] ${upstreamLine(upstream)}`),
  ];
  return { ok: checks.every(({ ok }) => ok), text: lines.join("\n") };
}

function upstreamLine({ target, port, host, addresses, lookupFailure, phase, since }: UpstreamState): string {
  const why = phase.state === "failing" ? ` (${phase.cause}: ${phase.detail})` : "";
  const stale = lookupFailure !== undefined && addresses.length > 0 ? `, kept despite ${lookupFailure}` : "";
  const where = addresses.length === 0 ? "no address" : `${addresses.join(" ")}${stale}`;
  return `upstream ${target}:${port}: ${phase.state}${why} since ${new Date(since).toISOString()}, ${host}: ${where}`;
}
