import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Fact, known, readFact } from "./fact.ts";
import type { HttpSolverFacts } from "./facts.ts";

interface RawIssuer {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly acme?: {
      readonly solvers?: ReadonlyArray<{
        readonly http01?: object | null;
        readonly waitInsteadOfSelfCheck?: string;
      }> | null;
    };
  };
}

type Solvers = Fact<readonly HttpSolverFacts[] | undefined>;

/** The HTTP-01 solvers of all cert-manager issuers; undefined if the cluster has no cert-manager. */
export async function gatherHttpSolvers(client: KubeClient): Promise<Solvers> {
  const [ofCluster, ofNamespaces] = await Promise.all([
    gatherSolversOf(client, "ClusterIssuer", "clusterissuers"),
    gatherSolversOf(client, "Issuer", "issuers"),
  ]);
  if (!ofCluster.known) return ofCluster;
  if (!ofNamespaces.known) return ofNamespaces;
  if (ofCluster.value === undefined && ofNamespaces.value === undefined) return known(undefined);
  return known([...(ofCluster.value ?? []), ...(ofNamespaces.value ?? [])]);
}

async function gatherSolversOf(client: KubeClient, kind: string, resource: string): Promise<Solvers> {
  const list = async () => {
    const path = resourcePath({ group: "cert-manager.io", version: "v1", resource });
    return (await client.list<RawIssuer>(path)).items.flatMap((issuer) => solversOf(kind, issuer));
  };
  const permission = { verb: "list", resource: `${resource}.cert-manager.io` };
  return await readFact<readonly HttpSolverFacts[] | undefined>(permission, list, { value: undefined });
}

function solversOf(kind: string, { metadata, spec }: RawIssuer): HttpSolverFacts[] {
  const { namespace, name = "" } = metadata;
  const issuer = `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
  const solvers = spec?.acme?.solvers ?? [];
  return solvers.flatMap(({ http01, waitInsteadOfSelfCheck }) =>
    http01 === undefined || http01 === null ? [] : { issuer, waits: waitInsteadOfSelfCheck !== undefined },
  );
}
