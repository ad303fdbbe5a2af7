import { resourcePath } from "./paths.ts";

/** The fields of a discovery/v1 EndpointSlice that are read. */
export interface RawEndpointSlice {
  readonly endpoints?: ReadonlyArray<{
    readonly addresses?: readonly string[];
    readonly conditions?: { readonly ready?: boolean };
    readonly targetRef?: { readonly kind?: string; readonly name?: string } | null;
  }> | null;
  readonly ports?: ReadonlyArray<{ readonly name?: string; readonly port?: number }> | null;
}

/** The path and label selector of a Service's EndpointSlices. */
export function endpointSlicesOf(namespace: string, service: string): { path: string; labelSelector: string } {
  return {
    path: resourcePath({ group: "discovery.k8s.io", version: "v1", resource: "endpointslices", namespace }),
    labelSelector: `kubernetes.io/service-name=${service}`,
  };
}

/**
 * Returns the first address of each ready endpoint: all addresses of an endpoint belong to the same pod. A missing
 * condition means ready (discovery/v1, EndpointConditions).
 */
export function readyAddresses({ endpoints }: RawEndpointSlice): readonly string[] {
  return (endpoints ?? []).flatMap(({ addresses, conditions }) =>
    conditions?.ready === false ? [] : (addresses?.slice(0, 1) ?? []),
  );
}

/** Returns the pods behind a slice, ready or not, with the slice's port of this name. Each pod appears once. */
export function podsBehind(
  { endpoints, ports }: RawEndpointSlice,
  portName: string,
): readonly { readonly pod: string; readonly port: number }[] {
  const port = (ports ?? []).find(({ name }) => name === portName)?.port;
  if (port === undefined) return [];
  return (endpoints ?? []).flatMap(({ targetRef }) =>
    targetRef?.kind === "Pod" && targetRef.name !== undefined ? [{ pod: targetRef.name, port }] : [],
  );
}
