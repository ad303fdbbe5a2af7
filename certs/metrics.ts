import { Counter, Gauge, type Registry } from "prom-client";
import type { CertStatus } from "./manager.ts";

/** Registers the certificate metrics. `status` is called at each scrape, and returns undefined in a replica that is not the leader. */
export function registerCertMetrics(registry: Registry, status: () => CertStatus | undefined): void {
  const registers = [registry];
  new Gauge({
    name: "switchback_certificate_not_after_seconds",
    help: "Expiry of the CA and of the current serving certificate, Unix seconds.",
    labelNames: ["certificate"],
    registers,
    collect() {
      this.reset();
      const { caNotAfter, leafNotAfter } = status() ?? {};
      if (caNotAfter !== undefined) this.set({ certificate: "ca" }, caNotAfter / 1000);
      if (leafNotAfter !== undefined) this.set({ certificate: "serving" }, leafNotAfter / 1000);
    },
  });
  new Gauge({
    name: "switchback_certificates_state",
    help: "1 for the current state of the certificates.",
    labelNames: ["code"],
    registers,
    collect() {
      this.reset();
      const code = status()?.state.code;
      if (code !== undefined) this.set({ code }, 1);
    },
  });
  new Gauge({
    name: "switchback_certificates_failing",
    help: "1 if the last attempt to maintain the certificates or the caBundle failed.",
    registers,
    collect() {
      this.set(status()?.lastError === undefined ? 0 : 1);
    },
  });
  new Counter({
    name: "switchback_cabundle_restored_total",
    help: "How often another writer's change to the caBundle was reverted.",
    registers,
    collect() {
      this.reset();
      this.inc(status()?.bundleRestored ?? 0);
    },
  });
}
