import * as v from "valibot";
import { strictObject, text } from "#lib/errors/schemas.ts";
import { EXTERNAL_DNS_PREFIXES } from "./defaults.ts";
import { described, label, optionalSetting, path, section, setting } from "./values.ts";

const gatewaySchema = strictObject({
  enabled: setting(
    v.boolean(),
    true,
    "Read the Gateways and routes of Gateway API, if the cluster has them. Disable it if they have no public names.",
  ),
  requireAccepted: setting(
    v.boolean(),
    true,
    "Use only Gateways and routes that a controller has accepted; set it to false for implementations that do not " +
      "report acceptance.",
  ),
  listeners: setting(
    v.boolean(),
    true,
    "Map the hostnames of listeners too, even without a route: certificates are requested for them. " +
      "Disable it if listeners have names that nothing serves.",
  ),
});

/** Kinds of well-known ingress controllers; controller/sources/custom.ts defines how they are read. */
export const PRESET_NAMES = [
  "traefik-ingressroute",
  "traefik-ingressroutetcp",
  "istio-gateway",
  "istio-virtualservice",
  "contour-httpproxy",
  "openshift-route",
] as const;
export type PresetName = (typeof PRESET_NAMES)[number];

const customSchema = strictObject({
  group: described(
    v.pipe(v.string(), v.regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "must be an API group, such as `example.com`")),
    "API group of the kind.",
  ),
  version: described(label, "API version to read, such as `v1alpha1`."),
  resource: described(label, "The kind's plural, such as `ingressroutes`; the chart lets the controller read it."),
  hostnames: described(path, "JSONPath (RFC 9535) of the hostnames in an object."),
  syntax: setting(
    v.picklist(["name", "list", "traefik-rule", "istio-host"]),
    "name",
    "Format of the value: one name, names separated by commas, a Traefik rule, or Istio's `namespace/name`.",
  ),
  class: optionalSetting(path, "JSONPath of the class that selects the target."),
  className: optionalSetting(text, "Default class of objects that name none."),
  addresses: optionalSetting(path, "JSONPath of the load balancer addresses in the object's status."),
  admitted: optionalSetting(path, "JSONPath that selects a value once a controller has admitted the object."),
});

/**
 * external-dns requires the same of its `--annotation-prefix`: a slash at the end (pkg/apis/externaldns/validation).
 */
const annotationPrefix = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/$/, "must be a domain that ends with `/`"),
);

export const sourcesSchema = strictObject({
  ingress: section(
    strictObject({
      enabled: setting(v.boolean(), true, "Read the hosts of Ingresses. Disable it if they have no public names."),
    }),
  ),
  gateway: section(gatewaySchema),
  presets: setting(
    v.pipe(
      v.array(v.picklist(PRESET_NAMES)),
      v.check((list) => new Set(list).size === list.length, "must not contain a preset twice"),
    ),
    [],
    `Predefined kinds to read: ${PRESET_NAMES.join(", ")}. Add those of your ingress controllers.`,
  ),
  custom: setting(v.array(customSchema), [], "Additional kinds to read, for which there is no preset; see below."),
  services: section(
    strictObject({
      enabled: setting(
        v.boolean(),
        false,
        "Read LoadBalancer Services with external-dns' annotation `hostname`. Enable it if their names lead to them.",
      ),
      annotationPrefixes: setting(
        v.pipe(v.array(annotationPrefix), v.minLength(1), v.maxLength(4)),
        EXTERNAL_DNS_PREFIXES,
        "Prefixes of external-dns' annotations (its `--annotation-prefix`). They are read on Services, and the " +
          "publisher `external-dns` writes them. Change them if your external-dns has others.",
      ),
    }),
  ),
});
