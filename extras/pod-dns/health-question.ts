import { Resolver } from "node:dns/promises";
import { DNS_HEALTH_NAME } from "./health-name.ts";

/** Two tries, less than a second together, because resolvers are asked each second. */
const TRIES = { timeout: 350, tries: 2 };

const HEALTHY = "127.0.0.1";

/**
 * Whether the pod DNS resolver at this address answers a health name, and so has a map. Another `name` asks for more,
 * such as the rollout. Each question has its own socket, so that it reaches a pod that is behind the Service now.
 */
export async function answersHealth(address: string, name = DNS_HEALTH_NAME): Promise<boolean> {
  const resolver = new Resolver(TRIES);
  try {
    resolver.setServers([address]);
    return (await resolver.resolve4(name)).includes(HEALTHY);
  } catch {
    return false;
  }
}
