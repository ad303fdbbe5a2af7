import { Resolver } from "node:dns/promises";
import { DNS_HEALTH_NAME } from "./health-name.ts";

/** Two tries, of less than a second together: resolvers are asked each second. */
const TRIES = { timeout: 350, tries: 2 };

const HEALTHY = "127.0.0.1";

/**
 * Whether the resolver of pod DNS at this address answers with the map; `name` asks for more, such as its rollout.
 * Each question has its own socket, so that it reaches a pod that is behind the Service now.
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
