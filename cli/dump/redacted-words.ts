import { isIP } from "node:net";
import { isSoftwareName } from "#controller/targets/known-software.ts";
import { foundName } from "#controller/targets/service-view.ts";
import { BUILT_IN_SUFFIXES } from "#hostmap/protected-names.ts";
import { isPublicTld } from "#hostmap/public-tlds.ts";
import { frontName } from "#lib/documents/listeners.ts";

/** Domains of API groups, of keys and of well-known services. Names below them belong to software, not to its users. */
const SOFTWARE_DOMAIN =
  /(?:^|\.)(?:k8s\.io|kubernetes\.io|switchback\.dev|istio\.io|cert-manager\.io|traefik\.io|projectcontour\.io|openshift\.io|cilium\.io|envoyproxy\.io|external-dns\.io|hetzner\.cloud|oraclecloud\.com|openstack\.org|cloudscale\.ch)$/;
/** Words that affect a decision, or that are common. */
const COMMON = new Set(
  (
    "true false null none always never auto enabled disabled required optional redacted tcp udp tls ssl http https " +
    "grpc h2c web websecure proxy webhook controller config all metrics health v1 v2 v1alpha1 v1beta1 ip instance " +
    "nlb nlb-ip nlb-target-type external internal internet-facing ingress gateway ingressgateway egressgateway " +
    "istio nginx haproxy envoy restart live namespace service default kube-system kube-public kube-node-lease " +
    "coredns coredns-custom"
  ).split(" "),
);
const FRONT_PREFIX = frontName("");
const SWITCHBACK = /^switchback(?:-|$)/;
const PROXY_PROTOCOL = /proxy.?protocol/i;
/** An IP address, or a run of characters that a name may have. */
const TOKEN = /(?:[0-9A-Fa-f]{0,4}:){2,}[0-9A-Fa-f.:]*|[A-Za-z0-9_*](?:[A-Za-z0-9_*.-]*[A-Za-z0-9_*])?/g;

/**
 * Replaces words of a cluster with other words, each always with the same one. A hostname keeps its last label and
 * any suffix that affects a decision; its other labels are replaced as words. A private address stays private, a
 * public one public.
 */
export class RedactedWords {
  readonly #words = new Map<string, string>();
  readonly #addresses = new Map<string, string>();
  readonly #kept: Set<string>;
  readonly #suffixes: readonly string[];

  constructor(kept: Iterable<string>, clusterDomain: string | undefined) {
    this.#kept = new Set(kept);
    const domains = [clusterDomain, "cluster.local"].filter((domain) => domain !== undefined);
    this.#suffixes = [...BUILT_IN_SUFFIXES, ...domains.flatMap((domain) => [domain, `svc.${domain}`])];
  }

  /** Redacts a value: replaces every word that there is no reason to keep. */
  inValue(value: string): string {
    return value.replace(TOKEN, (token) => this.#replace(token, false));
  }

  /** Redacts a sentence: replaces only addresses, public hostnames and words that were replaced elsewhere. */
  inText(text: string): string {
    return text.replace(TOKEN, (token) => this.#replace(token, true));
  }

  #replace(token: string, isText: boolean): string {
    const address = token.replace(/:$/, "");
    if (isIP(address) !== 0) return this.#address(address) + token.slice(address.length);
    if (token.includes(":")) return token.replace(/[^:]+/g, (part) => this.#replace(part, isText));
    if (/^[\d.*_-]+$/.test(token) || PROXY_PROTOCOL.test(token) || SOFTWARE_DOMAIN.test(token)) return token;
    if (this.#kept.has(token)) return token;
    if (token.includes(".")) return this.#hostname(token, isText);
    return isText && !this.#words.has(token) ? token : this.word(token);
  }

  #hostname(token: string, isText: boolean): string {
    const name = token.toLowerCase();
    const suffix = this.#suffixes
      .filter((each) => name === each || name.endsWith(`.${each}`))
      .toSorted((one, other) => other.length - one.length)[0];
    const labels = name.split(".");
    const last = labels.at(-1) ?? "";
    // A setting such as `policy.verifyDns` is not a hostname.
    const isHost = suffix !== undefined || isPublicTld(last) || labels.some((label) => this.#words.has(label));
    if (isText && !isHost) return token;
    const kept = suffix?.split(".").length ?? 1;
    const own = labels.slice(0, -kept).map((label) => (/^\*+$/.test(label) ? label : this.word(label)));
    return [...own, ...labels.slice(-kept)].join(".");
  }

  /** The name of a discovered target contains the name of its Service. Replaces both in the same way. */
  target(namespace: string, service: string): void {
    this.#words.set(foundName(namespace, service), foundName(this.word(namespace), this.word(service)));
  }

  /** The replacement of a word. */
  word(word: string): string {
    const target = this.#words.get(word.slice(FRONT_PREFIX.length));
    if (target !== undefined && word.startsWith(FRONT_PREFIX)) return FRONT_PREFIX + target;
    const isKept = COMMON.has(word) || this.#kept.has(word) || SWITCHBACK.test(word) || isSoftwareName(word);
    if (isKept || /^(?:[A-Z]|\d+$|.$)/.test(word)) return word;
    const known = this.#words.get(word) ?? `n${this.#words.size + 1}`;
    this.#words.set(word, known);
    return known;
  }

  #address(address: string): string {
    if (/^(?:127\.|0\.|169\.254\.|255\.|::1?$|fe80:)/i.test(address)) return address;
    const known = this.#addresses.get(address);
    if (known !== undefined) return known;
    const number = this.#addresses.size + 1;
    const [high, low] = [number >> 8, number & 255];
    const isPrivate = /^(?:10\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.|f[cd])/i.test(address);
    const next =
      isIP(address) === 6
        ? `${isPrivate ? "fd00" : "2001:db8"}::${number.toString(16)}`
        : `${isPrivate ? "10" : "198"}.${18 + (high >> 8)}.${high & 255}.${low}`;
    this.#addresses.set(address, next);
    return next;
  }
}
