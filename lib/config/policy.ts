import * as v from "valibot";
import { integer, strictObject } from "#lib/errors/schemas.ts";
import { described, glob, label, setting } from "./values.ts";

const namespaces = described(
  v.pipe(v.array(v.union([label, v.literal("*")], "must be the name of a namespace, or `*` for all")), v.minLength(1)),
  "Namespaces, or `*` for all.",
);

const claimsSchema = strictObject({
  namespaces,
  domains: described(v.pipe(v.array(glob), v.minLength(1)), "Domains that objects of these namespaces may claim."),
});

const targetsSchema = strictObject({
  namespaces,
  targets: described(
    v.pipe(v.array(v.union([label, v.literal("*")], "must be the name of a target, or `*` for all")), v.minLength(1)),
    "Targets that objects of these namespaces may choose, configured or discovered; `*` for all.",
  ),
});

export const policySchema = strictObject({
  allowDomains: setting(
    v.array(glob),
    [],
    "Only these domains may be mapped; if empty, all. Set them if tenants write Ingresses.",
  ),
  denyDomains: setting(
    v.array(glob),
    [],
    "These domains are never mapped; takes precedence over allowDomains. Add those that must always leave the cluster.",
  ),
  namespaces: setting(
    v.array(label),
    [],
    "Only objects of these namespaces may claim names; if empty, all. Set them if only some teams serve public names.",
  ),
  denyNamespaces: setting(
    v.array(label),
    [],
    "Objects of these namespaces may not claim names; takes precedence over namespaces. Add those of experiments.",
  ),
  maxNamesPerNamespace: setting(
    integer(1),
    250,
    "Maximum number of names per namespace; mapped names stay, then the oldest objects come first. Half of " +
      "inject.maxNames by default, so that one namespace cannot fill a pod. Raise it for a namespace that serves more.",
  ),
  claims: setting(
    v.array(claimsSchema),
    [],
    "Which namespaces may claim which domains (`namespaces`, `domains`). With any entry, only these claims are " +
      "mapped. " +
      "Add entries if tenants must not claim each other's domains.",
  ),
  targets: setting(
    v.array(targetsSchema),
    [],
    "Which namespaces may choose which targets by the annotation switchback.dev/target (`namespaces`, `targets`); " +
      "by default none may. Add entries for objects that discovery cannot resolve.",
  ),
  namespaceAnnotation: setting(
    v.boolean(),
    false,
    "A namespace may claim the domains in its annotation switchback.dev/domains; apart from `claims`, nothing else " +
      "is mapped. Enable it only if tenants cannot annotate their namespaces.",
  ),
  requireAdmitted: setting(
    v.boolean(),
    false,
    "Map names only after a controller has set the load balancer status of their object, or accepted their route. " +
      "Enable it if objects are created long before anything serves them.",
  ),
  verifyDns: setting(
    v.picklist(["auto", "off", "warn", "enforce"]),
    "auto",
    "How to handle a name that the cluster's DNS does not resolve to its target's load balancer (so no hairpin): " +
      "`auto` maps it to the Service that DNS leads to, or does not map it if DNS leads elsewhere; `warn` " +
      "reports " +
      "it in status and metrics; `enforce` maps a name only after DNS resolves it to its load balancer. Set " +
      "`off` if the cluster's DNS does not know your " +
      "public names.",
  ),
  dnsServers: setting(
    v.array(
      v.pipe(
        v.string(),
        v.regex(/^([0-9.]+|\[[0-9a-fA-F:]+\])(:[0-9]+)?$/, "must be an IP address, optionally with a port"),
      ),
    ),
    [],
    "DNS servers that verifyDns queries (`10.96.0.10`, `[fd00::a]:53`); if empty, those of the controller's pod. " +
      "Set them if these answer with other addresses than clients get.",
  ),
});
