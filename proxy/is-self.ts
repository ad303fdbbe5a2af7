import { normalAddress } from "./address.ts";
import type { SelfEndpoints } from "./engine.ts";
import type { Endpoint } from "./proxy-header.ts";

/** Whether `address`:`port` is this proxy. Checked at every dial, because a name may resolve to any address. */
export function isSelf(address: string, port: number, self: SelfEndpoints, bound: readonly Endpoint[]): boolean {
  const wanted = normalAddress(address);
  if (self.frontEndpoints.some((front) => front.port === port && normalAddress(front.address) === wanted)) return true;
  return bound.some((listener) => listener.port === port && reaches(wanted, listener.address, self));
}

/** Whether a socket bound to `bindAddress` accepts connections to `wanted`. */
function reaches(wanted: string, bindAddress: string, self: SelfEndpoints): boolean {
  const bind = normalAddress(bindAddress);
  if (bind !== "::" && bind !== "0.0.0.0") return bind === wanted || (isUnspecified(wanted) && isLoopback(bind));
  // `0.0.0.0` accepts only IPv4; `::` accepts both.
  if (bind === "0.0.0.0" && wanted.includes(":")) return false;
  return (
    isUnspecified(wanted) ||
    isLoopback(wanted) ||
    self.interfaceAddresses.some((address) => normalAddress(address) === wanted)
  );
}

/** On Linux, a connect to the unspecified address reaches the loopback address. */
function isUnspecified(address: string): boolean {
  return address === "::" || address === "0.0.0.0";
}

function isLoopback(address: string): boolean {
  return address === "::1" || address.startsWith("127.");
}
