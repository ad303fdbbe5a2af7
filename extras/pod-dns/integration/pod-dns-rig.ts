import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DnsServer, ipv4, NO_ERROR, NO_NAME, startDnsServer, TYPE_A } from "#test/fakes/dns-server.ts";
import { namespaceYaml, type Pod } from "#test/integration/objects.ts";
import { NAMESPACE, type System, until, webhookMetric } from "#test/integration/system.ts";
import { DNS_HEALTH_NAME } from "../health-name.ts";

// The cluster's DNS and the two resolvers of pod DNS. Pods know only port 53, so each server has a loopback address
// that no other test process has.

/** A pod with its DNS settings. */
export interface DnsPod extends Pod {
  spec: Pod["spec"] & {
    readonly dnsPolicy: string;
    readonly dnsConfig?: {
      readonly nameservers?: string[];
      readonly searches?: string[];
      readonly options?: ReadonlyArray<{ readonly name: string; readonly value?: string }>;
    };
  };
}

const addressOf = (first: number) =>
  `127.${first + ((process.pid >> 16) & 31)}.${(process.pid >> 8) & 255}.${process.pid & 255}`;
/** The resolvers' addresses. */
export const [A, B] = [addressOf(128), addressOf(160)] as const;
const SERVICES: Readonly<Record<string, string>> = {
  [`switchback-dns-a.${NAMESPACE}.svc.cluster.local`]: A,
  [`switchback-dns-b.${NAMESPACE}.svc.cluster.local`]: B,
};

/** Why the tests cannot run; false if they can. Not every user may bind port 53. */
export async function whyNot(): Promise<string | false> {
  try {
    (await startDnsServer(() => NO_NAME, A, 53)).close();
    return false;
  } catch {
    return "port 53 cannot be bound here";
  }
}

/** Both resolvers and the DNS of the cluster. */
export class PodDnsRig {
  /** Addresses of resolvers that do not answer. */
  readonly silent = new Set<string>();
  readonly #servers: DnsServer[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), "switchback-pod-dns-"));

  async start(): Promise<void> {
    for (const address of [A, B]) {
      const answer = (name: string, type: number) => {
        if (this.silent.has(address)) return undefined;
        return name === DNS_HEALTH_NAME && type === TYPE_A ? ipv4("127.0.0.1") : NO_NAME;
      };
      this.#servers.push(await startDnsServer(answer, address, 53));
    }
    const clusterDns = await startDnsServer((name, type) => {
      const address = SERVICES[name];
      if (address === undefined) return NO_NAME;
      return type === TYPE_A ? ipv4(address) : NO_ERROR;
    });
    this.#servers.push(clusterDns);
    const searches = `${NAMESPACE}.svc.cluster.local svc.cluster.local cluster.local corp.example`;
    const text = `search ${searches}\nnameserver ${clusterDns.address}\noptions ndots:5 edns0\n`;
    writeFileSync(join(this.#folder, "resolv.conf"), text);
  }

  /** Values of the chart. The resolvers' pods do not run, because there are no nodes. */
  values(config: object = {}) {
    return {
      podDns: { enabled: true, image: "registry.example.com/coredns:1" },
      config: { ...config, podDns: { resolvConf: join(this.#folder, "resolv.conf") } },
    };
  }

  stop(): void {
    for (const server of this.#servers) server.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/**
 * Waits until the first webhook gives pods the resolvers (1), or does not (0). To use them, it needs three successful
 * checks in a row, each without a delay.
 */
export async function usable(system: System, value: 0 | 1): Promise<void> {
  const isSo = async () => (await webhookMetric(system, "switchback_webhook_pod_dns_usable")) === value;
  await until(`pod DNS to be ${value === 1 ? "used" : "unused"}`, isSo, 120_000);
}

/** YAML of a namespace that opted in, with the label that chooses the delivery. */
export function viaNamespace(name: string, via: string): string {
  return namespaceYaml(name, "enabled").replace('"enabled"', `"enabled", switchback.dev/via: "${via}"`);
}
