import { CONFIGURATION_PATH, WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import { INJECT_KEY, REVISION_KEY } from "#hostmap/metadata-keys.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { type Fact, known, mapFact, permissionMissing, readFact } from "./fact.ts";
import type { AdmissionFacts, DryRun, WebhookEntry } from "./facts.ts";
import { containerSecurity, podSecurity } from "./probe/pod.ts";

// Facts about admission: the webhook configuration, and the dry run of a pod's creation.

export async function gatherAdmission(client: KubeClient, dryRunNamespace: string): Promise<AdmissionFacts> {
  const [configuration, dryRun] = await Promise.all([gatherConfiguration(client), dryRunPod(client, dryRunNamespace)]);
  return { configuration, dryRun };
}

export interface RawConfiguration {
  readonly webhooks?: readonly {
    readonly name: string;
    readonly failurePolicy?: string;
    readonly clientConfig?: { readonly service?: { readonly namespace: string } };
  }[];
}

/** The entries of the webhook configuration; of a missing one, undefined. */
async function gatherConfiguration(client: KubeClient): Promise<AdmissionFacts["configuration"]> {
  const resource = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
  const permission = { verb: "get", resource, name: WEBHOOK_CONFIGURATION };
  const read = () => client.get<RawConfiguration>(CONFIGURATION_PATH);
  const configuration = await readFact<RawConfiguration | undefined>(permission, read, { value: undefined });
  return mapFact(configuration, (value) => value && entriesOf(value));
}

/** Applies the default of admissionregistration.k8s.io/v1, in case the API server has not. */
function entriesOf({ webhooks = [] }: RawConfiguration): WebhookEntry[] {
  return webhooks.map(({ name, failurePolicy = "Fail", clientConfig }) => {
    return { name, failurePolicy, serviceNamespace: clientConfig?.service?.namespace };
  });
}

/** Creates an opted-in pod as a dry run; never rejects. The pod meets the restricted Pod Security Standard. */
async function dryRunPod(client: KubeClient, namespace: string): Promise<Fact<DryRun>> {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { generateName: "switchback-doctor-dry-run-", labels: { [INJECT_KEY]: "enabled" } },
    spec: {
      automountServiceAccountToken: false,
      securityContext: podSecurity,
      containers: [{ name: "none", image: "none", resources: SMALL_RESOURCES, securityContext: containerSecurity }],
    },
  };
  try {
    const created = await client.create<{ metadata: ObjectMeta }>(corePath("pods", namespace), pod, { dryRun: true });
    return known({ outcome: created.metadata.annotations?.[REVISION_KEY] === undefined ? "untouched" : "injected" });
  } catch (error) {
    return classifyRefusal(error, namespace);
  }
}

/** A ResourceQuota may require requests and limits. */
const SMALL_RESOURCES = { requests: { cpu: "1m", memory: "1Mi" }, limits: { cpu: "1m", memory: "1Mi" } };

/**
 * RBAC and admission both answer 403. Only the message tells them apart (kube-apiserver's
 * authorizer and webhook client).
 */
function classifyRefusal(error: unknown, namespace: string): Fact<DryRun> {
  const text = describeError(error);
  if (statusOf(error) === 403 && /cannot create resource/.test(text)) {
    return permissionMissing({ verb: "create", resource: "pods", namespace });
  }
  if (/failed calling webhook "[a-z-]+\.switchback\.dev"/.test(text)) return known({ outcome: "blocked", text });
  return known({ outcome: "refused", text });
}
