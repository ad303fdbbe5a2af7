import { show } from "#hostmap/hostnames.ts";
import { PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";

/** The PROXY header that a load balancer sends. */
export type Protocol = "v1" | "v2" | "none";
const PROTOCOLS: readonly Protocol[] = ["v1", "v2", "none"];

type Annotations = Readonly<Record<string, string>>;
/** Reads the protocol of a port; undefined: the annotation does not set it. */
type Meaning = (value: string, port: number, annotations: Annotations) => Protocol | undefined;

const AWS = "service.beta.kubernetes.io/aws-load-balancer-";
const BETA = "service.beta.kubernetes.io/";
const STACKIT = "lb.stackit.cloud/tcp-proxy-protocol";

/**
 * `"true"` enables the header. Receivers behind these load balancers accept both versions, because the header
 * identifies its version.
 */
const switched =
  (version: Protocol): Meaning =>
  (value) =>
    value === "true" ? version : value === "false" ? "none" : undefined;

const versioned: Meaning = (value) => {
  if (value === "none" || value === "false") return "none";
  if (value === "true") return "v1";
  // OVH's `v2-ssl` and `v2-ssl-cn` are v2 with TLVs.
  return value.startsWith("v2") ? "v2" : value === "v1" ? "v1" : undefined;
};

/** Scaleway: `true` and `*` mean all ports, otherwise the listed ones. */
const listed =
  (version: Protocol): Meaning =>
  (value, port) => {
    if (value === "true" || value === "*") return version;
    if (value === "false") return undefined;
    return value.split(",").some((entry) => entry.trim() === String(port)) ? version : undefined;
  };

const words =
  (meanings: Readonly<Record<string, Protocol>>): Meaning =>
  (value) =>
    Object.hasOwn(meanings, value) ? meanings[value] : undefined;

/**
 * CloudStack: its own controller takes any value except `false` for all ports. Leaseweb's controller takes a list of
 * ports.
 */
const cloudstack: Meaning = (value, port, annotations) => {
  if (/^[\d\s,]+$/.test(value)) return listed("v1")(value, port, annotations);
  return value === "false" ? "none" : "v1";
};

/** STACKIT: all ports, or the ports in a second annotation. */
const stackit: Meaning = (value, port, annotations) => {
  if (!/^(?:1|t|true)$/i.test(value)) return "none";
  const ports = annotations[`${STACKIT}-ports-filter`];
  return ports === undefined ? "v2" : (listed("v2")(ports, port, annotations) ?? "none");
};

/** Linode: the settings of one port, as JSON. */
const linodePort: Meaning = (value, port, annotations) => {
  const { "proxy-protocol": version } = objectIn(parseJson(value));
  return typeof version === "string" ? versioned(version, port, annotations) : undefined;
};

/**
 * UpCloud: frontends and backends as JSON, both named after the Service's ports. A frontend may omit its port. Then
 * the backends decide if all listed ones agree.
 */
const upcloud: Meaning = (value, port) => {
  const config = objectIn(parseJson(value));
  const names = listIn(config.frontends).flatMap((frontend) => (frontend.port === port ? [frontend.name] : []));
  const backends = listIn(config.backends);
  const matching = backends.filter(({ name }) => names.includes(name));
  const versions = (matching.length > 0 ? matching : backends).map(
    ({ properties }) => objectIn(properties).outbound_proxy_protocol ?? "",
  );
  const [version] = versions;
  if (version === undefined || versions.some((other) => other !== version)) return undefined;
  return version === "v1" || version === "v2" ? version : version === "" ? "none" : undefined;
};

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The fields of a parsed object; no fields if it is not an object. */
function objectIn(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function listIn(value: unknown): ReadonlyArray<Readonly<Record<string, unknown>>> {
  return Array.isArray(value) ? value.map(objectIn) : [];
}

/** Placeholder for the port number in the key of an annotation. */
const PORT = "<port>";

/** Annotations of one provider. The first one that sets the protocol applies. */
type ProviderAnnotations = ReadonlyArray<readonly [key: string, meaning: Meaning]>;

/**
 * Annotations that make a cloud provider's load balancer send PROXY headers. They are from the provider's
 * documentation or cloud-controller-manager.
 */
const PROVIDERS: readonly ProviderAnnotations[] = [
  [
    // Only a network load balancer has this attribute, however it was requested.
    [
      `${AWS}target-group-attributes`,
      (value) => (/(^|,)\s*proxy_protocol_v2\.enabled=true\s*(,|$)/.test(value) ? "v2" : undefined),
    ],
    // A network load balancer sends version 2, and a classic one sends version 1.
    [
      `${AWS}proxy-protocol`,
      (value, _port, annotations) =>
        value !== "*" ? undefined : /^(nlb|external)/.test(annotations[`${AWS}type`] ?? "") ? "v2" : "v1",
    ],
  ],
  [["load-balancer.hetzner.cloud/uses-proxyprotocol", switched("v1")]],
  [[`${BETA}do-loadbalancer-enable-proxy-protocol`, switched("v1")]],
  // Two separate entries, because Scaleway's controller refuses a port that both of them name.
  [[`${BETA}scw-loadbalancer-proxy-protocol-v2`, listed("v2")]],
  [[`${BETA}scw-loadbalancer-proxy-protocol-v1`, listed("v1")]],
  [["loadbalancer.openstack.org/proxy-protocol", versioned]],
  [[`${BETA}ovh-loadbalancer-proxy-protocol`, versioned]],
  [
    [`${BETA}linode-loadbalancer-port-${PORT}`, linodePort],
    // The former name of the annotation.
    [`${BETA}linode-loadbalancer-proxy-protocol`, versioned],
    [`${BETA}linode-loadbalancer-default-proxy-protocol`, versioned],
  ],
  [[`${BETA}vultr-loadbalancer-proxy-protocol`, switched("v1")]],
  [
    [
      "service.kubernetes.io/ibm-load-balancer-cloud-provider-enable-features",
      (value) => (/(^|,)\s*proxy-protocol\s*(,|$)/.test(value) ? "v1" : undefined),
    ],
  ],
  [["k8s.cloudscale.ch/loadbalancer-pool-protocol", words({ proxy: "v1", proxyv2: "v2", tcp: "none" })]],
  [["kubernetes.civo.com/loadbalancer-enable-proxy-protocol", words({ "send-proxy": "v1", "send-proxy-v2": "v2" })]],
  [[`${BETA}oci-load-balancer-connection-proxy-protocol-version`, words({ 1: "v1", 2: "v2" })]],
  // Annotation of Oracle's network load balancer.
  [["oci-network-load-balancer.oraclecloud.com/is-ppv2-enabled", switched("v2")]],
  [[`${BETA}upcloud-load-balancer-config`, upcloud]],
  [[`${BETA}cloudstack-load-balancer-proxy-protocol`, cloudstack]],
  // outscale/cloud-provider-osc, docs/annotations.md. A list has node ports, which are not known here.
  [[`${BETA}osc-load-balancer-proxy-protocol`, words({ "*": "v1" })]],
  // cloud-provider-azure, Azure Private Link Service Integration. The Private Link service sends the header, in
  // version 2.
  [[`${BETA}azure-pls-proxy-protocol`, words({ true: "v2" })]],
  // stackitcloud/cloud-provider-stackit, docs/load-balancer.md.
  [[STACKIT, stackit]],
  // guide.ncloud-docs.com/docs/en/nks-nks-1-8, which does not name the version.
  [[`${BETA}ncloud-load-balancer-proxy-protocol`, switched("v1")]],
];

/** Keys of the annotations that `statedProtocol` reads. `<port>` is any port. */
export const PROTOCOL_ANNOTATIONS: readonly string[] = [
  PROXY_PROTOCOL_KEY,
  ...PROVIDERS.flatMap((provider) => provider.map(([key]) => key)),
  `${AWS}type`,
  `${STACKIT}-ports-filter`,
];

/** Whether `statedProtocol` reads the annotation. */
export function isProtocolAnnotation(key: string): boolean {
  return PROTOCOL_ANNOTATIONS.includes(key) || PROTOCOL_ANNOTATIONS.includes(key.replace(/\d+$/, PORT));
}

/** The protocol of ports without a statement in annotations; `auto`: the ingress controller is asked. */
export function assumedProtocol({ protocol, detect }: Config["discovery"]): Protocol | "auto" {
  return protocol === "auto" && !detect ? "v1" : protocol;
}

/** The source of a statement about a port's protocol: the switchback.dev annotation, or that of a cloud provider. */
export type StatedBy = "annotation" | "provider";

/** The statement of a Service's annotations about a port. */
export interface Stated {
  readonly protocol: Protocol;
  readonly by: StatedBy;
  /** The annotation that states it, with its value: `switchback.dev/proxy-protocol is "v1"`. */
  readonly says: string;
}

function says(key: string, value: string): string {
  return `${key} is ${show(value)}`;
}

/**
 * The protocol that the annotations of a Service state for a port; undefined: none does. The switchback.dev
 * annotation comes first, then those of known providers. If its value is invalid, or if annotations of providers
 * contradict each other, the result is a reason instead of a guess.
 */
export function statedProtocol(annotations: Annotations | undefined = {}, port: number): Stated | Reason | undefined {
  const explicit = annotations[PROXY_PROTOCOL_KEY];
  if (explicit !== undefined) {
    const accepted = PROTOCOLS.find((protocol) => protocol === explicit);
    if (accepted !== undefined)
      return { protocol: accepted, by: "annotation", says: says(PROXY_PROTOCOL_KEY, explicit) };
    const text = `${PROXY_PROTOCOL_KEY} is ${show(String(explicit))}; accepted are ${PROTOCOLS.join(", ")}`;
    return { code: "annotation-invalid", text };
  }
  const statements = PROVIDERS.flatMap((provider) => statementOf(provider, port, annotations) ?? []);
  const [first] = statements;
  const other = statements.find(({ protocol }) => protocol !== first?.protocol);
  if (first === undefined) return undefined;
  if (other === undefined) {
    return { protocol: first.protocol, by: "provider", says: says(first.key, annotations[first.key] ?? "") };
  }
  const both = `for port ${port}, ${first.key} says ${first.protocol}, and ${other.key} says ${other.protocol}`;
  return { code: "annotations-contradict", text: `${both}; remove one, or decide by ${PROXY_PROTOCOL_KEY}` };
}

/** The statement of a provider's annotations about a port; undefined: they set nothing. */
function statementOf(
  provider: ProviderAnnotations,
  port: number,
  annotations: Annotations,
): { readonly key: string; readonly protocol: Protocol } | undefined {
  for (const [pattern, meaning] of provider) {
    const key = pattern.replace(PORT, String(port));
    const value = annotations[key];
    const protocol = typeof value === "string" ? meaning(value, port, annotations) : undefined;
    if (protocol !== undefined) return { key, protocol };
  }
  return undefined;
}
