import type { KubeClient } from "../kube/client.ts";
import { resourcePath } from "../kube/paths.ts";
import type { ObjectMeta } from "../kube/types.ts";
import type { HttpSolverFacts } from "./facts.ts";
import { type Fact, readFact } from "./known.ts";

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

const KINDS = [
  { kind: "ClusterIssuer", resource: "clusterissuers" },
  { kind: "Issuer", resource: "issuers" },
] as const;

/** The HTTP-01 solvers of all issuers of cert-manager; undefined where the cluster has no cert-manager. */
export async function gatherHttpSolvers(client: KubeClient): Promise<Fact<readonly HttpSolverFacts[] | undefined>> {
  const solvers: HttpSolverFacts[] = [];
  for (const { kind, resource } of KINDS) {
    const permission = { verb: "list", resource: `${resource}.cert-manager.io` };
    const list = async () => {
      const path = resourcePath({ group: "cert-manager.io", version: "v1", resource });
      return (await client.list<RawIssuer>(path)).items;
    };
    const issuers = await readFact<readonly RawIssuer[] | undefined>(permission, list, { value: undefined });
    if (!issuers.known) return issuers;
    if (issuers.value === undefined) return { known: true, value: undefined };
    solvers.push(...issuers.value.flatMap((issuer) => solversOf(kind, issuer)));
  }
  return { known: true, value: solvers };
}

function solversOf(kind: string, { metadata, spec }: RawIssuer): HttpSolverFacts[] {
  const { namespace, name = "" } = metadata;
  const issuer = `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
  const solvers = spec?.acme?.solvers ?? [];
  return solvers.flatMap(({ http01, waitInsteadOfSelfCheck }) =>
    http01 === undefined || http01 === null ? [] : { issuer, waits: waitInsteadOfSelfCheck !== undefined },
  );
}
