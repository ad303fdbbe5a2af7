import * as v from "valibot";
import type { Reason } from "#hostmap/types.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import type { AdmittedPod } from "#webhook/admitted-pod.ts";
import type { PodDnsConfig } from "./dns-config.ts";
import type { PodResolution } from "./inject-dns.ts";

const texts = v.nullish(v.array(v.string()));
const specSchema = object({
  hostNetwork: v.nullish(v.boolean()),
  dnsPolicy: v.nullish(v.string()),
  dnsConfig: v.nullish(object({ nameservers: texts, searches: texts, options: v.nullish(v.array(object({}))) })),
});

/** Reads a pod's DNS settings, which matter only to pod DNS, or returns a reason that names the invalid field. */
export function readResolution(admitted: unknown, pod: AdmittedPod, namespace: string): PodResolution | Reason {
  // `readPod` has checked that there is a spec.
  const { spec } = admitted as { readonly spec: v.InferOutput<typeof specSchema> };
  const { flaw } = attempt(specSchema, spec);
  if (flaw !== undefined)
    return { code: "pod-malformed", text: `the pod cannot be read: spec.${flaw.path[0]}: is not valid` };
  return {
    ...pod,
    namespace,
    hostNetwork: spec.hostNetwork === true,
    dnsPolicy: spec.dnsPolicy ?? undefined,
    dnsConfig: (spec.dnsConfig ?? undefined) as PodDnsConfig | undefined,
  };
}
