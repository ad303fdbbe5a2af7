import { normalAddress } from "./address.ts";
import type { SelfEndpoints } from "./engine.ts";
import type { Endpoint } from "./proxy-header.ts";

/** Whether dialling `address`:`port` would lead back to this proxy. Checked at every dial: names can come to mean anything. */
export function isSelf(address: string, port: number, own: SelfEndpoints, bound: readonly Endpoint[]): boolean {
  const wanted = normalAddress(address);
  if (own.frontEndpoints.some((front) => front.port === port && normalAddress(front.address) === wanted)) return true;
  return bound.some((listener) => listener.port === port && reaches(wanted, listener.address, own));
}

/** Whether a socket bound to `bindAddress` accepts what is sent to `wanted`. */
function reaches(wanted: string, bindAddress: string, own: SelfEndpoints): boolean {
  const bind = normalAddress(bindAddress);
  if (bind !== "::" && bind !== "0.0.0.0") return bind === wanted || (isUnspecified(wanted) && isLoopback(bind));
  // `0.0.0.0` takes no IPv6; `::` takes both.
  if (bind === "0.0.0.0" && wanted.includes(":")) return false;
  return (
    isUnspecified(wanted) || isLoopback(wanted) || own.interfaceAddresses.some((ours) => normalAddress(ours) === wanted)
  );
}

/** Linux connects the unspecified address to the loopback one. */
function isUnspecified(address: string): boolean {
  return address === "::" || address === "0.0.0.0";
}

function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.");
}
