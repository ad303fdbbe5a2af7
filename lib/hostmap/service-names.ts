/** A Service that a pod reaches by a name, through the search list of its resolv.conf. */
export interface ServiceName {
  readonly namespace: string;
  readonly name: string;
}

/**
 * Returns the Service that a hostname (in lower case, or a wildcard) reaches in a pod: `<service>.<namespace>`, or a
 * host of it, `<host>.<service>.<namespace>`. A pod's search list has `svc.<cluster domain>`, and the hosts file is
 * read before DNS. So mapping such a name hijacks the Service. Undefined: it has another form.
 */
export function serviceNameOf(hostname: string): ServiceName | undefined {
  const labels = hostname.split(".", 4);
  const [namespace, name] = labels.toReversed();
  if (labels.length < 2 || labels.length > 3 || namespace === undefined || name === undefined) return undefined;
  return { namespace, name };
}
