const OF_CLUSTER = "ask the cluster administrator for the mapping if pods need it";
const NOTHING_TO_DO = "pods reach its ingress controller without a mapping; nothing has to be done";

/**
 * Advice by reason code. The texts are constant: the reason's own text may name objects of other tenants, which the
 * owner of this object must not learn from an Event.
 */
const ADVICE: Readonly<Record<string, string>> = {
  "name-invalid": "it is no public hostname: correct it",
  "name-protected": "such a name is never mapped, and no setting allows it",
  "in-cluster-name": "in pods the name stands for a Service: use another name",
  "namespace-not-allowed": `this namespace may not claim names; ${OF_CLUSTER}`,
  "domain-not-allowed": `its domain may not be mapped; ${OF_CLUSTER}`,
  "claim-not-allowed": `this namespace may not claim its domain; ${OF_CLUSTER}`,
  "namespace-quota": `this namespace claims more names than it may; claim fewer, or ${OF_CLUSTER}`,
  "too-many-claims": `this namespace claims more names than are kept; delete what is not needed, or ${OF_CLUSTER}`,
  "too-many-names": "one object may have 1,000 names, and the others are ignored: split it",
  conflict: "an older object has the name and leads it to another ingress controller; remove it from one of them",
  "not-admitted": "no ingress controller has admitted the object: find out why it is not served",
  "no-class": "the object names no class, and the cluster has no default: set its class",
  "no-target": `no known ingress controller serves the class of the object; correct it, or ${OF_CLUSTER}`,
  "header-unknown": `it is not known yet whether its controller expects a PROXY header; if it stays so, ${OF_CLUSTER}`,
  "header-not-expected": NOTHING_TO_DO,
  "target-not-allowed": `this namespace may not choose that target: correct switchback.dev/target, or ${OF_CLUSTER}`,
  "no-address": "the object has no load balancer address yet: see whether its ingress controller serves it",
  "dns-not-verified": "DNS does not lead the name to its load balancer yet: create the record, or wait",
  "dns-absent": "DNS does not know the name: create the record",
  "dns-elsewhere": "DNS leads the name elsewhere: correct the record, or remove the name from the object",
  "not-accepted": "its Gateway's controller does not accept it: the status of the object says why",
  "port-lost":
    "its ingress controller's Service lacks port 80 or 443, so pods cannot use that port; if a server answers on " +
    "it at the public address, tell the cluster administrator",
  "ip-mode-proxy": NOTHING_TO_DO,
  "load-balancer-hostname": NOTHING_TO_DO,
  "not-short-circuited": NOTHING_TO_DO,
};

/** Whether pods reach a name with this code without a mapping. Nothing is wrong with it. */
export const isHarmless = (code: string): boolean => ADVICE[code] === NOTHING_TO_DO;

/** Advice to the owner of an object about a name. Codes without an entry are described in docs/codes.md. */
export function adviceOn(code: string): string {
  return ADVICE[code] ?? "docs/codes.md of Switchback has the cause and the remedy";
}
