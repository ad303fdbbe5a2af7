import { parse } from "yaml";
import { z } from "zod";
import { type Config, configSchema } from "../config/schema.ts";
import { SwitchbackError } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath, resourcePath, serviceProxyPath } from "../kube/paths.ts";
import { pause } from "../kube/time.ts";
import type { ObjectMeta } from "../kube/types.ts";
import { readSnapshot } from "../snapshot/map-reader.ts";
import { TARGETS_NAME } from "../snapshot/targets-format.ts";
import { readTargets } from "../snapshot/targets-reader.ts";
import { CONFIG_NAME, type DeploymentFacts, type InstallFacts, type MapFacts, type StatusFacts } from "./facts.ts";
import { type Fact, known, notKnown, readFact } from "./known.ts";

// Facts about the Switchback installation, from its own namespace.

/** With 50,000 names the controller's status is 15 MB. */
const MAX_STATUS_BYTES = 64 * 1024 * 1024;

interface ConfigMap {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>>;
}

export async function gatherInstall(client: KubeClient, namespace: string): Promise<InstallFacts> {
  const [config, targets] = await Promise.all([gatherConfig(client, namespace), gatherTargets(client, namespace)]);
  const [deployments, map, status, proxyReadyz] = await Promise.all([
    gatherDeployments(client, namespace),
    gatherMap(client, namespace),
    gatherStatus(client, namespace),
    gatherReadyz(client, namespace),
  ]);
  return { config, targets, deployments, map, status, proxyReadyz };
}

async function gatherConfig(client: KubeClient, namespace: string): Promise<Fact<Config | undefined>> {
  const permission = { verb: "get", resource: "configmaps", namespace, name: CONFIG_NAME };
  const object = await readFact<ConfigMap | undefined>(
    permission,
    () => client.get<ConfigMap>(corePath("configmaps", namespace, CONFIG_NAME)),
    { value: undefined },
  );
  if (!object.known) return object;
  if (object.value === undefined) return known(undefined);
  return readConfig(object.value.data?.["config.yaml"] ?? "");
}

/** Fails for a configuration of another version with settings that this one does not know. */
function readConfig(text: string): Fact<Config> {
  try {
    const read = configSchema.safeParse(parse(text) ?? {});
    if (read.success) return known(read.data);
    return notKnown(
      "config-unreadable",
      `ConfigMap ${CONFIG_NAME} is not valid for this version: ${z.prettifyError(read.error)}`,
    );
  } catch (error) {
    return notKnown("config-unreadable", `ConfigMap ${CONFIG_NAME} is not YAML: ${String(error)}`);
  }
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

async function gatherDeployments(client: KubeClient, namespace: string): Promise<Fact<readonly DeploymentFacts[]>> {
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

async function gatherMap(client: KubeClient, namespace: string): Promise<Fact<MapFacts | undefined>> {
  const permission = { verb: "list", resource: "configmaps", namespace };
  const read = await readFact(permission, async () => await readSnapshot(client, namespace));
  if (!read.known) return read;
  const { index, map } = read.value;
  if (!("code" in index)) return known({ index, map });
  return index.code === "index-missing" ? known(undefined) : notKnown(index.code, index.text);
}

const reasonSchema = z.object({ code: z.string(), text: z.string() });
const workloadSchema = z.object({
  namespace: z.string(),
  kind: z.string(),
  name: z.string(),
  stale: z.number(),
  standing: z.string(),
  mode: z.string().optional(),
  modeFrom: z.string().optional(),
  ...reasonSchema.shape,
});
const statusSchema = z.object({
  leader: z.boolean(),
  synced: z.boolean(),
  sources: z.array(z.object({ name: z.string(), synced: z.boolean() })),
  hold: z.object({ names: z.number(), of: z.number(), until: z.number().min(0).max(8.64e15) }).optional(),
  warnings: z.array(reasonSchema),
  targets: z.array(
    z.object({
      name: z.string(),
      relayed: z.boolean(),
      upstream: z.string(),
      ports: z.array(z.object({ port: z.number() })),
    }),
  ),
  names: z.array(z.object({ name: z.string(), reason: reasonSchema.optional() })),
  running: z.object({ workloads: z.array(workloadSchema) }).optional(),
});

/** The API server sends each request to any replica; only one leads. */
const STATUS_TRIES = 12;
const STATUS_RETRY_MS = 100;

/** The leader's status, or a follower's if no leader answers. */
async function gatherStatus(client: KubeClient, namespace: string): Promise<Fact<StatusFacts>> {
  const service = { name: "switchback-controller", port: "http" };
  const path = serviceProxyPath(namespace, service, "/status");
  const permission = { verb: "get", resource: "services/proxy", namespace, name: "switchback-controller:http" };
  const read = async (): Promise<StatusFacts> => {
    const { text } = await client.raw(path, { maxBytes: MAX_STATUS_BYTES });
    return statusSchema.parse(JSON.parse(text));
  };
  return await readFact(permission, async () => {
    let status = await read();
    for (let tries = 1; !status.leader && tries < STATUS_TRIES; tries++) {
      await pause(STATUS_RETRY_MS, new AbortController().signal);
      status = await read();
    }
    return status;
  });
}

/** Any replica may answer. A 503 is an answer if its body is the proxy's own. */
async function gatherReadyz(client: KubeClient, namespace: string): Promise<Fact<string>> {
  const service = { name: "switchback-proxy", port: "metrics" };
  return await readFact(
    { verb: "get", resource: "services/proxy", namespace, name: "switchback-proxy:metrics" },
    async () => {
      const { text, status } = await client.raw(serviceProxyPath(namespace, service, "/readyz"), { anyStatus: true });
      if (status === 200 || (status === 503 && text.startsWith("["))) return text;
      throw new SwitchbackError("kube-status", `the proxy's /readyz: ${status} ${text.slice(0, 200)}`, { status });
    },
  );
}
