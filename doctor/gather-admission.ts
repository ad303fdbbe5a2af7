import { WEBHOOK_CONFIGURATION } from "../certs/cabundle.ts";
import { TLS_SECRET } from "../certs/store.ts";
import { describeError, statusOf } from "../errors/errors.ts";
import { INJECT_KEY, REVISION_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import { corePath, resourcePath } from "../kube/paths.ts";
import type { ObjectMeta } from "../kube/types.ts";
import type { AdmissionFacts, DryRun, WebhookEntry } from "./facts.ts";
import { type Known, known, learn, mapKnown, rightMissing } from "./known.ts";
import { containerSecurity, podSecurity } from "./probe/security.ts";

// How new pods get to the webhook: the configuration, the certificate, and a pod that is created as a dry run.

export async function gatherAdmission(client: KubeClient, namespace: string, tryIn: string): Promise<AdmissionFacts> {
  const [configuration, servingCertificate, dryRun] = await Promise.all([
    gatherConfiguration(client),
    gatherCertificate(client, namespace),
    tryCreate(client, tryIn),
  ]);
  return { configuration, servingCertificate, dryRun };
}

interface RawConfiguration {
  readonly webhooks?: readonly {
    readonly name: string;
    readonly failurePolicy?: string;
    readonly timeoutSeconds?: number;
    readonly clientConfig?: {
      readonly caBundle?: string;
      readonly service?: { readonly namespace: string; readonly name: string; readonly port?: number };
    };
    readonly namespaceSelector?: {
      readonly matchExpressions?: readonly { key: string; operator: string; values?: readonly string[] }[] | null;
    };
  }[];
}

async function gatherConfiguration(client: KubeClient): Promise<AdmissionFacts["configuration"]> {
  const resource = "mutatingwebhookconfigurations";
  const path = resourcePath({
    group: "admissionregistration.k8s.io",
    version: "v1",
    resource,
    name: WEBHOOK_CONFIGURATION,
  });
  const right = { verb: "get", resource: `${resource}.admissionregistration.k8s.io`, name: WEBHOOK_CONFIGURATION };
  const read = await learn<RawConfiguration | undefined>(right, () => client.get<RawConfiguration>(path), {
    value: undefined,
  });
  return mapKnown(read, (value) => value && entriesOf(value));
}

/** Defaults as admissionregistration.k8s.io/v1 has them; the API server fills them in, an old one might not. */
function entriesOf({ webhooks = [] }: RawConfiguration): WebhookEntry[] {
  return webhooks.map(({ name, failurePolicy = "Fail", timeoutSeconds = 10, clientConfig, namespaceSelector }) => {
    const service = clientConfig?.service;
    const excluded = (namespaceSelector?.matchExpressions ?? []).filter(
      ({ key, operator }) => key === "kubernetes.io/metadata.name" && operator === "NotIn",
    );
    return {
      name,
      failurePolicy,
      timeoutSeconds,
      caBundle: Buffer.from(clientConfig?.caBundle ?? "", "base64").toString("utf8"),
      service: service && { namespace: service.namespace, name: service.name, port: service.port ?? 443 },
      excludedNamespaces: excluded.flatMap(({ values }) => values ?? []),
    };
  });
}

async function gatherCertificate(client: KubeClient, namespace: string): Promise<Known<string | undefined>> {
  interface Secret {
    readonly data?: Readonly<Record<string, string>>;
  }
  const right = { verb: "get", resource: "secrets", namespace, name: TLS_SECRET };
  const path = corePath("secrets", namespace, TLS_SECRET);
  const secret = await learn<Secret | undefined>(right, () => client.get<Secret>(path), { value: undefined });
  return mapKnown(secret, (value) => {
    const certificate = value?.data?.["tls.crt"];
    return certificate === undefined ? undefined : Buffer.from(certificate, "base64").toString("utf8");
  });
}

/** Asks for a pod that opts in, without one being made. It would pass the restricted Pod Security Standard. */
async function tryCreate(client: KubeClient, namespace: string): Promise<Known<DryRun>> {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { generateName: "switchback-doctor-dry-run-", labels: { [INJECT_KEY]: "enabled" } },
    spec: {
      automountServiceAccountToken: false,
      securityContext: podSecurity,
      containers: [{ name: "none", image: "none", resources: SMALL, securityContext: containerSecurity }],
    },
  };
  try {
    const made = await client.create<{ metadata: ObjectMeta }>(corePath("pods", namespace), pod, { dryRun: true });
    return known({ outcome: made.metadata.annotations?.[REVISION_KEY] === undefined ? "untouched" : "injected" });
  } catch (error) {
    return judgeRefusal(error, namespace);
  }
}

/** A quota may ask for them. */
const SMALL = { requests: { cpu: "1m", memory: "1Mi" }, limits: { cpu: "1m", memory: "1Mi" } };

/** RBAC's refusal and those of admission are all 403; the words tell them apart, as in kube-apiserver's authorizer and webhook client. */
function judgeRefusal(error: unknown, namespace: string): Known<DryRun> {
  const text = describeError(error);
  if (statusOf(error) === 403 && /cannot create resource/.test(text)) {
    return rightMissing({ verb: "create", resource: "pods", namespace });
  }
  if (/failed calling webhook "[a-z]+\.switchback\.dev"/.test(text)) return known({ outcome: "blocked", text });
  return known({ outcome: "refused", text });
}
