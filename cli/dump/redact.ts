import { groupOf } from "#lib/kube/paths.ts";
import type { StoredAnswer } from "#lib/kube/stored-client.ts";
import { parseObjectPath } from "#lib/kube/stored-objects.ts";
import { RedactedWords } from "./redacted-words.ts";

// A redacted dump has other names, hosts and addresses, each replaced consistently, and the same findings. Classes,
// labels of known software, providers' settings and suffixes that affect a decision stay.

/** Fields whose values come from Kubernetes, an ingress controller or Switchback, and not from the cluster's users. */
const KEPT_FIELDS = new Set(
  (
    "apiVersion kind type protocol appProtocol ipMode controller controllerName ingressClassName " +
    "gatewayClassName className creationTimestamp time phase status reason code method version " +
    "externalTrafficPolicy pathType internalTrafficPolicy sessionAffinity ipFamilyPolicy ipFamilies " +
    "standing mode modeFrom imagePullPolicy operator failurePolicy verbs effect group resourceVersion uid " +
    "caBundle tls.crt dnsPolicy matchPolicy sideEffects scope admissionReviewVersions operations " +
    "apiGroups apiVersions resources reinvocationPolicy contentType revision since lastTransitionTime " +
    "renewTime acquireTime program"
  ).split(" "),
);
const TEXTS = new Set(["message", "text", "note", "lastError"]);
/** Paths of the API server's version and of its discovery. */
const DISCOVERY = /^\/(?:version|apis?\/[^/]+(?:\/[^/]+)?)$/;
const MAPS = new Set(["labels", "annotations", "matchLabels", "selector"]);
const SETTING =
  /(?:(?:kubernetes|k8s|metallb)\.io|switchback\.dev|(?:hetzner|stackit)\.cloud|oraclecloud\.com|openstack\.org|cloudscale\.ch|universe\.tf)\//;

interface Fields {
  readonly [field: string]: unknown;
}

/** The fields of an object in which the redactor finds names. */
interface Named {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: { readonly name?: string; readonly namespace?: string; readonly annotations?: Fields };
  readonly spec?: { readonly ingressClassName?: string; readonly gatewayClassName?: string };
}

export class Redactor {
  readonly #words: RedactedWords;

  /**
   * `objects` are all objects of the dump as JSON. A name in one object is also replaced in the texts of the others.
   * `kept` are words of the default configuration, which stay.
   */
  constructor(objects: () => Iterable<string>, clusterDomain: string | undefined, kept: Iterable<string> = []) {
    const classes = new Set(kept);
    const services: (readonly [namespace: string, name: string])[] = [];
    for (const json of objects()) {
      const object = JSON.parse(json) as Named;
      for (const name of classesIn(object)) classes.add(name);
      const { kind, metadata: { namespace, name } = {} } = object;
      if (kind === "Service" && namespace && name) services.push([namespace, name]);
    }
    this.#words = new RedactedWords(classes, clusterDomain);
    for (const [namespace, name] of services) this.#words.target(namespace, name);
    for (const json of objects()) this.object(JSON.parse(json));
  }

  object(object: object): object {
    return this.#fields(object as Fields);
  }

  /** Redacts the answer to a request, and the names in its path. */
  answer(path: string, { message, text, body, ...rest }: StoredAnswer): { path: string } & StoredAnswer {
    return {
      ...rest,
      path: this.#path(path),
      ...(message !== undefined && { message: this.#words.inText(message) }),
      ...(text !== undefined && { text: this.#page(text) }),
      ...(body !== undefined && { body: DISCOVERY.test(path) ? body : this.#fields(body as Fields) }),
    };
  }

  name(name: string): string {
    return this.#words.inValue(name);
  }

  #path(path: string): string {
    const { root, namespace, resource, name } = parseObjectPath(path) ?? {};
    if (root === undefined || resource === undefined) return path;
    const inside = namespace === undefined ? "" : `/namespaces/${this.name(namespace)}`;
    return `${root}${inside}/${resource}${name === undefined ? "" : `/${this.name(name)}`}`;
  }

  /** Redacts a page of a component: JSON or lines of text. */
  #page(text: string): string {
    try {
      return JSON.stringify(this.#value(JSON.parse(text), ""));
    } catch {
      return this.#words.inText(text);
    }
  }

  #fields(fields: Fields): Fields {
    return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, this.#value(value, key)]));
  }

  #value(value: unknown, key: string): unknown {
    if (typeof value === "string") return this.#string(value, key);
    if (Array.isArray(value)) return value.map((each) => this.#value(each, key));
    if (typeof value !== "object" || value === null) return value;
    if (MAPS.has(key)) return this.#map(value as Fields, key === "annotations");
    // The data of a ConfigMap or of a Secret.
    if (key === "data") {
      const texts = Object.entries(value).map(([name, text]) => [
        name,
        this.#value(text, name === "tls.crt" ? name : "text"),
      ]);
      return Object.fromEntries(texts);
    }
    return this.#fields(value as Fields);
  }

  #string(value: string, key: string): string {
    if (KEPT_FIELDS.has(key)) return value;
    if (TEXTS.has(key)) return this.#words.inText(value);
    if (key === "providerID") return value.replace(/(?<=:\/\/).*/, "redacted");
    if (key === "path") return "/";
    return this.#words.inValue(value);
  }

  /** Replaces keys like values if their domain does not belong to known software. */
  #map(map: Fields, isAnnotations: boolean): Fields {
    return Object.fromEntries(
      Object.entries(map).map(([key, value]) => {
        const isUnknown = isAnnotations && !SETTING.test(key);
        const shown = key.includes("/") && !SETTING.test(key) ? this.#words.inText(key) : key;
        return [shown, isUnknown ? "redacted" : this.#value(value, "")];
      }),
    );
  }
}

/** Kinds of objects whose name is a class, as `Kind.group`. */
const CLASSES = ["IngressClass.networking.k8s.io", "GatewayClass.gateway.networking.k8s.io"];

function classesIn({ apiVersion, kind, metadata = {}, spec = {} }: Named): string[] {
  const annotation = metadata.annotations?.["kubernetes.io/ingress.class"];
  const own = CLASSES.includes(`${kind}.${groupOf(apiVersion)}`) ? metadata.name : undefined;
  const names = [own, spec?.ingressClassName, spec?.gatewayClassName, annotation];
  return names.filter((name) => typeof name === "string");
}
