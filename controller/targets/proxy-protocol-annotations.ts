import { show } from "#hostmap/hostnames.ts";
import { PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";

/** The PROXY header that a load balancer sends. */
export type Protocol = "v1" | "v2" | "none";
export const PROTOCOLS: readonly Protocol[] = ["v1", "v2", "none"];

type Annotations = Readonly<Record<string, string>>;

const AWS = "service.beta.kubernetes.io/aws-load-balancer-";
const BETA = "service.beta.kubernetes.io/";
const STACKIT = "lb.stackit.cloud/tcp-proxy-protocol";
const ON = "1|t|T|true|TRUE|True";

/** The number of the port, in the key of an annotation and in patterns of its values. */
const PORT = "<port>";

/**
 * The protocol by value. Each key is a regular expression for the whole value, and the first that matches counts.
 * Undefined, or no match: the value says nothing about the port.
 */
type Values = Readonly<Record<string, Protocol | undefined>>;
/** An annotation, what its values mean, and another annotation without which it does not count. */
type Row = readonly [key: string, values: Values, beside?: readonly [key: string, pattern: string]];

/** Receivers behind a load balancer accept both versions, because the header identifies its version. */
const SWITCHED = { true: "v1", false: "none" } as const;
// OVH's `v2-ssl` and `v2-ssl-cn` are v2 with TLVs.
const VERSIONED = { "none|false": "none", "true|v1": "v1", "v2.*": "v2" } as const;

/** A pattern for a list that contains a word. */
const listWith = (word: string) => `(?:.*,)?\\s*${word}\\s*(?:,.*)?`;
/** A pattern for JSON with a field of this value, wherever it is. */
const jsonWith = (field: string, value: string) => `.*"${field}"\\s*:\\s*"(?:${value})".*`;

const OUTBOUND = "outbound_proxy_protocol";

/**
 * The annotations that make a cloud provider's load balancer send PROXY headers, by provider. The first annotation of
 * a provider that sets the protocol applies. They are from the documentation and cloud controllers of the providers in
 * docs/providers.md; the comments name the others.
 */
const PROVIDERS: ReadonlyArray<readonly Row[]> = [
  [
    // Only a network load balancer has this attribute, however it was requested.
    [`${AWS}target-group-attributes`, { [listWith("proxy_protocol_v2\\.enabled=true")]: "v2" }],
    // A network load balancer sends version 2, and a classic one sends version 1.
    [`${AWS}proxy-protocol`, { "\\*": "v2" }, [`${AWS}type`, "(?:nlb|external).*"]],
    [`${AWS}proxy-protocol`, { "\\*": "v1" }],
  ],
  [["load-balancer.hetzner.cloud/uses-proxyprotocol", SWITCHED]],
  [[`${BETA}do-loadbalancer-enable-proxy-protocol`, SWITCHED]],
  // Two separate entries, because Scaleway's controller refuses a port that both of them name.
  [[`${BETA}scw-loadbalancer-proxy-protocol-v2`, { "true|\\*": "v2", [listWith(PORT)]: "v2" }]],
  [[`${BETA}scw-loadbalancer-proxy-protocol-v1`, { "true|\\*": "v1", [listWith(PORT)]: "v1" }]],
  [["loadbalancer.openstack.org/proxy-protocol", VERSIONED]],
  [[`${BETA}ovh-loadbalancer-proxy-protocol`, VERSIONED]],
  [
    // The settings of one port, as JSON: linode/linode-cloud-controller-manager, docs/configuration/annotations.md.
    [
      `${BETA}linode-loadbalancer-port-${PORT}`,
      Object.fromEntries(
        Object.entries(VERSIONED).map(([value, version]) => [
          jsonWith("proxy-protocol", value.replace(".*", '[^"]*')),
          version,
        ]),
      ),
    ],
    // The former name of the annotation.
    [`${BETA}linode-loadbalancer-proxy-protocol`, VERSIONED],
    [`${BETA}linode-loadbalancer-default-proxy-protocol`, VERSIONED],
  ],
  [[`${BETA}vultr-loadbalancer-proxy-protocol`, SWITCHED]],
  [["service.kubernetes.io/ibm-load-balancer-cloud-provider-enable-features", { [listWith("proxy-protocol")]: "v1" }]],
  [["k8s.cloudscale.ch/loadbalancer-pool-protocol", { proxy: "v1", proxyv2: "v2", tcp: "none" }]],
  [["kubernetes.civo.com/loadbalancer-enable-proxy-protocol", { "send-proxy": "v1", "send-proxy-v2": "v2" }]],
  [[`${BETA}oci-load-balancer-connection-proxy-protocol-version`, { 1: "v1", 2: "v2" }]],
  // Annotation of Oracle's network load balancer.
  [["oci-network-load-balancer.oraclecloud.com/is-ppv2-enabled", { true: "v2", false: "none" }]],
  // JSON with the setting of each backend: UpCloudLtd/uks-instructions, ccm/README.md. It counts if they are equal.
  [
    [
      `${BETA}upcloud-load-balancer-config`,
      Object.fromEntries(
        (["v1", "v2"] as const).map((version) => [
          `(?!${jsonWith(OUTBOUND, `(?!${version}")[^"]*`)})${jsonWith(OUTBOUND, version)}`,
          version,
        ]),
      ),
    ],
  ],
  // CloudStack's own controller takes any value except `false`, Leaseweb's a list of ports.
  [
    [
      `${BETA}cloudstack-load-balancer-proxy-protocol`,
      { false: "none", [listWith(PORT)]: "v1", "[\\d\\s,]+": undefined, ".*": "v1" },
    ],
  ],
  // outscale/cloud-provider-osc, docs/annotations.md. A list has node ports, which are not known here.
  [[`${BETA}osc-load-balancer-proxy-protocol`, { "\\*": "v1" }]],
  // cloud-provider-azure, Azure Private Link Service Integration. The Private Link service sends the header, in
  // version 2.
  [[`${BETA}azure-pls-proxy-protocol`, { true: "v2" }]],
  // stackitcloud/cloud-provider-stackit, docs/load-balancer.md: all ports, or those of a second annotation.
  [
    [`${STACKIT}-ports-filter`, { "true|\\*": "v2", [listWith(PORT)]: "v2", ".*": "none" }, [STACKIT, ON]],
    [STACKIT, { [ON]: "v2", ".*": "none" }],
  ],
  // guide.ncloud-docs.com/docs/en/nks-nks-1-8, which does not name the version.
  [[`${BETA}ncloud-load-balancer-proxy-protocol`, SWITCHED]],
];

/** Keys of the annotations that `statedProtocol` reads. `<port>` is any port. */
export const PROTOCOL_ANNOTATIONS: readonly string[] = [
  PROXY_PROTOCOL_KEY,
  ...PROVIDERS.flat().map(([key]) => key),
  `${AWS}type`,
];

/** Whether `statedProtocol` reads the annotation. */
export function isProtocolAnnotation(key: string): boolean {
  return PROTOCOL_ANNOTATIONS.includes(key) || PROTOCOL_ANNOTATIONS.includes(key.replace(/\d+$/, PORT));
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

/**
 * The protocol that the annotations of a Service state for a port; undefined: none does. The switchback.dev
 * annotation comes first. Then those of known providers count, unless they contradict each other.
 */
export function statedProtocol(annotations: Annotations, port: number): Stated | undefined {
  const protocol = PROTOCOLS.find((each) => each === annotations[PROXY_PROTOCOL_KEY]);
  if (protocol !== undefined) return { protocol, by: "annotation", says: `${PROXY_PROTOCOL_KEY} is ${show(protocol)}` };
  const [first, ...others] = PROVIDERS.flatMap((provider) => statementOf(provider, port, annotations) ?? []);
  if (first === undefined || others.some((other) => other.protocol !== first.protocol)) return undefined;
  return { ...first, by: "provider" };
}

/** The statement of a provider's annotations about a port; undefined: they set nothing. */
function statementOf(provider: readonly Row[], port: number, annotations: Annotations): Omit<Stated, "by"> | undefined {
  for (const [pattern, values, beside] of provider) {
    const key = pattern.replace(PORT, String(port));
    const value = annotations[key];
    if (typeof value !== "string" || (beside && !matches(beside[1], annotations[beside[0]] ?? ""))) continue;
    const [, protocol] = Object.entries(values).find(([one]) => matches(one.replace(PORT, String(port)), value)) ?? [];
    if (protocol !== undefined) return { protocol, says: `${key} is ${show(value)}` };
  }
  return undefined;
}

function matches(pattern: string, value: string): boolean {
  return new RegExp(`^(?:${pattern})$`, "s").test(value);
}
