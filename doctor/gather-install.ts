import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { CONFIG_NAME, readConfigText } from "#lib/documents/installed-config.ts";
import { readLeaderStatus, readStatusKey, STATUS_SECRET, type StatusPage } from "#lib/documents/status-page.ts";
import { TARGETS_NAME } from "#lib/documents/targets-format.ts";
import { readTargets } from "#lib/documents/targets-reader.ts";
import { hasCode } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Fact, known, notKnown, readFact } from "./fact.ts";
import type { DeploymentFacts, InstallFacts } from "./facts.ts";

// Facts about the Switchback installation, from its own namespace.

export async function gatherInstall(
  client: KubeClient,
  namespace: string,
  sections: readonly Section[] = [],
): Promise<InstallFacts> {
  const [config, targets, deployments, status] = await Promise.all([
    gatherConfig(client, namespace, sections),
    gatherTargets(client, namespace),
    gatherDeployments(client, namespace),
    gatherStatus(client, namespace),
  ]);
  return { config, targets, deployments, status };
}

/** The installed configuration, with the sections of extras; undefined if it is missing. */
export async function gatherConfig(
  client: KubeClient,
  namespace: string,
  sections: readonly Section[],
): Promise<Fact<Config | undefined>> {
  const reading = { verb: "get", resource: "configmaps", namespace, name: CONFIG_NAME };
  const read = () => readConfigText(client, namespace);
  const text = await readFact<string | undefined>(reading, read, { value: undefined });
  if (!text.known || text.value === undefined) return text as Fact<undefined>;
  const { readConfig } = await import("./install-documents.ts");
  return readConfig(CONFIG_NAME, text.value, sections);
}

async function gatherTargets(client: KubeClient, namespace: string): Promise<InstallFacts["targets"]> {
  const right = { verb: "get", resource: "configmaps", namespace, name: TARGETS_NAME };
  const read = await readFact(right, async () => await readTargets(client, namespace), { value: undefined });
  if (!read.known) return read;
  if (read.value === undefined) return known(undefined);
  return "code" in read.value ? notKnown(read.value.code, read.value.text) : known(read.value.targets);
}

interface RawDeployment {
  readonly metadata: ObjectMeta;
  readonly spec?: {
    readonly replicas?: number;
    readonly template?: {
      readonly spec?: { readonly containers?: readonly { image?: string; imagePullPolicy?: string }[] };
    };
  };
  readonly status?: { readonly readyReplicas?: number };
}

/** The Deployments of Switchback's namespace. */
export async function gatherDeployments(
  client: KubeClient,
  namespace: string,
): Promise<Fact<readonly DeploymentFacts[]>> {
  return await readFact({ verb: "list", resource: "deployments.apps", namespace }, async () => {
    const path = resourcePath({ group: "apps", version: "v1", resource: "deployments", namespace });
    return (await client.list<RawDeployment>(path)).items.map(({ metadata, spec, status }) => {
      const container = spec?.template?.spec?.containers?.[0];
      return {
        name: metadata.name ?? "",
        desired: spec?.replicas ?? 1,
        ready: status?.readyReplicas ?? 0,
        image: container?.image ?? "",
        pullPolicy: container?.imagePullPolicy ?? "IfNotPresent",
      };
    });
  });
}

/** Reads the leader's status, or a follower's if no leader answers. Earlier versions of the controller need no key. */
async function gatherStatus(client: KubeClient, namespace: string): Promise<Fact<StatusPage>> {
  const ofKey = { verb: "get", resource: "secrets", namespace, name: STATUS_SECRET };
  const ofPage = { verb: "get", resource: "services/proxy", namespace, name: "switchback-controller:http" };
  const key = await readFact(ofKey, () => readStatusKey(client, namespace));
  const options = { key: key.known ? key.value : undefined };
  let isRefused = false;
  const status = await readFact(ofPage, () =>
    readLeaderStatus(client, namespace, options).catch((error) => {
      isRefused = hasCode(error, "status-refused");
      throw error;
    }),
  );
  return isRefused && !key.known ? key : status;
}
