import { nodeAddress } from "#controller/targets/node-address.ts";
import { listSome } from "#lib/errors/printable.ts";
import { type ClusterFacts, objectKey } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { routesWithoutService } from "../load-balancers.ts";

const { ok, unknown } = findingsOf("short-circuit");

const SUBJECT = "addresses of nodes";
/** Maximum number of objects in a finding. */
const MAX_LISTED = 5;

/** The Ingresses and Gateways that nodes serve, such as those of a controller on the host's network. */
export function checkNodeAddresses(facts: ClusterFacts): Finding[] {
  const { nodeAddresses: nodes } = facts;
  if (nodes === undefined) return [];
  const routes = routesWithoutService(facts);
  const list = (some: typeof routes) => listSome(some, MAX_LISTED, (route) => `${route.kind} ${objectKey(route)}`);
  if (!nodes.known) {
    const evidence = `${nodes.reason.text}: whether the addresses of ${list(routes)} are those of nodes`;
    return [unknown(SUBJECT, nodes.reason.code, evidence)];
  }
  const ofNodes = routes.filter(({ addresses }) => nodeAddress(addresses, nodes.value) !== undefined);
  if (ofNodes.length === 0) return [];
  const evidence =
    `the status of ${list(ofNodes)} has addresses of nodes, and no Service has them: ` +
    "pods reach them, so the names are not mapped";
  return [ok(SUBJECT, "node-address", evidence)];
}
