/** The advice to the owner of an object about a name that is not mapped. */
export interface Advice {
  readonly text: string;
  /** Nothing is wrong: pods reach the name without a mapping. */
  readonly harmless?: true;
  /** The name is mapped, but something is missing. */
  readonly mapped?: true;
}

const HOSTNAME = "it is no public hostname: correct it";
const PROTECTED = "such a name is never mapped, and no setting allows it";
const OF_CLUSTER = "ask the cluster administrator for the mapping if pods need it";
const GATEWAY_REFUSES = "its Gateway's controller does not accept it: the status of the object says why";
const HARMLESS = {
  harmless: true,
  text: "pods reach its load balancer without a mapping; nothing has to be done",
} as const;

/**
 * Advice by reason code. The texts are constant: the reason's own text may name objects of other tenants, which the
 * owner of this object must not learn from an Event.
 */
const ADVICE: Readonly<Record<string, Advice>> = {
  "name-invalid": { text: HOSTNAME },
  "name-protected": { text: PROTECTED },
  "in-cluster-name": { text: "in pods the name stands for a Service: use another name" },
  "namespace-not-allowed": { text: `this namespace may not claim names; ${OF_CLUSTER}` },
  "domain-not-allowed": { text: `its domain may not be mapped; ${OF_CLUSTER}` },
  "claim-not-allowed": { text: `this namespace may not claim its domain; ${OF_CLUSTER}` },
  "namespace-quota": { text: `this namespace claims more names than it may; claim fewer, or ${OF_CLUSTER}` },
  "too-many-claims": {
    text: `this namespace claims more names than are kept; delete what is not needed, or ${OF_CLUSTER}`,
  },
  "too-many-names": { text: "one object may have 1,000 names, and the others are ignored: split it" },
  conflict: {
    text: "an older object has the name and leads it to another ingress controller; remove it from one of them",
  },
  "not-admitted": { text: "no ingress controller has admitted the object: find out why it is not served" },
  "no-class": { text: "the object names no class, and the cluster has no default: set its class" },
  "no-target": { text: `no known ingress controller serves the class of the object; correct it, or ${OF_CLUSTER}` },
  "header-unknown": {
    text: `it is not known yet whether its ingress controller expects a PROXY header; if it stays so, ${OF_CLUSTER}`,
  },
  "header-not-expected": {
    harmless: true,
    text: "its ingress controller takes no PROXY header: pods reach it without a mapping",
  },
  "target-not-allowed": {
    text: `this namespace has no such choice in switchback.dev/target: correct the annotation, or ${OF_CLUSTER}`,
  },
  "no-address": { text: "the object has no load balancer address yet: see whether its ingress controller serves it" },
  "dns-not-verified": { text: "DNS does not lead the name to its load balancer yet: create the record, or wait" },
  "dns-absent": { text: "DNS does not know the name: create the record" },
  "dns-elsewhere": { text: "DNS leads the name elsewhere: correct the record, or remove the name from the object" },
  "not-accepted": { text: GATEWAY_REFUSES },
  "port-lost": {
    mapped: true,
    text:
      "its ingress controller's Service lacks port 80 or 443, so pods cannot use that port; if a server answers on " +
      "it at the public address, tell the cluster administrator",
  },
  "ip-mode-proxy": HARMLESS,
  "load-balancer-hostname": HARMLESS,
  "not-short-circuited": HARMLESS,
};

/** Codes without an entry are described in docs/codes.md. */
export function adviceOn(code: string): Advice {
  return ADVICE[code] ?? { text: "docs/codes.md of Switchback has the cause and the remedy" };
}
