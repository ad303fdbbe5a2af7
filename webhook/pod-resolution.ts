import type { PodResolution } from "#hostmap/inject-dns.ts";
import type { PodDnsConfig } from "#hostmap/pod-dns.ts";
import type { Reason } from "#hostmap/types.ts";
import type { AdmittedPod } from "./admitted-pod.ts";

type Fields = Readonly<Record<string, unknown>>;

const FIELDS: Readonly<Record<string, (value: unknown) => boolean>> = {
  hostNetwork: (value) => typeof value === "boolean",
  dnsPolicy: (value) => typeof value === "string",
  dnsConfig: (value) => isObject(value) && Object.entries(LISTS).every(([key, isItem]) => isList(value[key], isItem)),
};

const LISTS: Readonly<Record<keyof PodDnsConfig, (item: unknown) => boolean>> = {
  nameservers: (item) => typeof item === "string",
  searches: (item) => typeof item === "string",
  options: isObject,
};

/** Reads how a pod resolves names, which matters only to pod DNS, or returns a reason that names the invalid field. */
export function readResolution(object: unknown, pod: AdmittedPod, namespace: string): PodResolution | Reason {
  // `readPod` has found a spec in it.
  const { spec } = object as { readonly spec: Fields };
  for (const [field, isValid] of Object.entries(FIELDS)) {
    if (isAbsent(spec[field]) || isValid(spec[field])) continue;
    return { code: "pod-malformed", text: `the pod cannot be read: spec.${field}: Invalid input` };
  }
  const { hostAliases, annotations } = pod;
  return {
    hostAliases,
    annotations,
    namespace,
    hostNetwork: spec.hostNetwork === true,
    dnsPolicy: (spec.dnsPolicy ?? undefined) as string | undefined,
    dnsConfig: (spec.dnsConfig ?? undefined) as PodDnsConfig | undefined,
  };
}

function isList(value: unknown, isItem: (item: unknown) => boolean): boolean {
  return isAbsent(value) || (Array.isArray(value) && value.every(isItem));
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}
